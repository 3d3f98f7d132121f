import { make } from "./dom.js";

// A field in the place of a word: Enter calls `replace` with what is written there, Escape gives
// the word back.
export function editIn(button, replace) {
  const before = button.textContent;
  const input = make("input", { type: "text", class: "editing", value: before });
  input.setAttribute("aria-label", `Another word for ${before}`);
  input.size = Math.max(4, before.length + 2);
  let open = true;
  const close = (focus) => {
    if (!open) return;
    open = false;
    input.remove();
    button.hidden = false;
    if (focus) button.focus();
  };
  input.addEventListener("blur", () => close(false));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation(); // letters are no shortcuts here
    if (event.key === "Escape") close(true);
    if (event.key !== "Enter") return;
    event.preventDefault();
    const words = input.value.trim();
    close(true);
    if (words !== before) replace(words);
  });
  button.hidden = true;
  button.after(input);
  input.focus();
  input.select();
}
