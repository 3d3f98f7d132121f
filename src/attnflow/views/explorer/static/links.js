// What a link asks for and this page does not have: said, instead of silently left out.

const INPUTS = ["model", "edges", "text", "pair", "answer", "length", "other", "token", "span"];

// Parts of a link that were not followed, as they stand in it. `requested` and `extra` are what the
// link says, `state` is what is shown of it.
export function ignoredParts({ requested, extra }, state, views, values = {}) {
  const unknown = Object.keys(extra).filter((name) => !INPUTS.includes(name) && !(name in values));
  const differs = ["method", "layer", "compare", "mode"].filter(
    (name) => requested[name] && requested[name] !== state[name],
  );
  const inputs = ["model", "edges"].filter((name) => extra[name] && extra[name] !== values[name]);
  const panes = (requested.panes ?? []).flatMap((pane, at) => outside(pane, views[at]));
  return [
    ...unknown.map((name) => `${name}=${extra[name]}`),
    ...differs.map((name) => `${name}=${requested[name]}`),
    ...(Object.keys(values).length ? inputs.map((name) => `${name}=${extra[name]}`) : []),
    ...panes,
  ];
}

function outside({ query, key, blank }, view) {
  if (!view) return ["a second input"];
  const missing = [query, key, ...blank].filter((at) => at !== null && at >= view.size);
  return missing.map((at) => `token ${at}`);
}

export function ignoredNote(parts) {
  if (!parts.length) return "";
  const named = parts.map((part) => `“${part}”`).join(", ");
  return `The link also names ${named}, which this page does not have; the rest is shown.`;
}
