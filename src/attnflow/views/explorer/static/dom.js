// Elements are made from data, never from markup: a token may be a closing script tag.

export const byId = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name === "style")
      for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-") && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A group of radio buttons that looks like a switch; returns a function that selects a choice.
export function makeSwitch(fieldset, name, choices, choose) {
  fieldset.querySelectorAll("label").forEach((old) => old.remove());
  const inputs = choices.map(({ value, label, title, disabled }) => {
    const input = make("input", {
      type: "radio",
      name,
      value,
      disabled: Boolean(disabled),
      onchange: () => choose(value),
    });
    fieldset.append(make("label", { title: title ?? "" }, input, make("span", {}, label)));
    return input;
  });
  return (value) =>
    inputs.forEach((input) => {
      input.checked = input.value === value;
    });
}

export function showTip(event, lines) {
  const tip = byId("tip");
  if (!lines) {
    tip.hidden = true;
    return;
  }
  tip.replaceChildren(...lines.map((line, i) => make(i ? "div" : "b", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, window.innerWidth - width - 8);
  const top =
    event.clientY + 18 + height > window.innerHeight
      ? event.clientY - height - 12
      : event.clientY + 18;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}
