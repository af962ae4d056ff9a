// A small virtual DOM: pages say what should be there, `render` changes what differs.
// Elements survive a change of state, so focus, drags and transitions do too. Text is only ever set as text.

const BEFORE = Symbol("what was rendered");
const TEXT = "#text";

/** What an element should be. `key` (unique among its siblings) ties it to the element it was before. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, key: props?.key, children };
}

/** Makes the content of an element what `children` say; children that are null or false are left out. */
export function render(parent, ...children) {
  const wanted = flat(children);
  const known = new Map((parent[BEFORE] ?? []).map((node) => [node.name, node]));
  let spot = parent[BEFORE] ? parent.firstChild : (parent.replaceChildren(), null);
  for (const node of named(wanted)) {
    const old = known.get(node.name);
    known.delete(node.name);
    node.element = old && old.tag === node.tag ? old.element : create(node);
    if (old && old.element !== node.element) {
      if (old.element === spot) spot = spot.nextSibling;
      old.element.remove();
    }
    if (node.element === spot) {
      spot = spot.nextSibling;
    } else {
      parent.insertBefore(node.element, spot);
    }
    update(node, old && old.tag === node.tag ? old : null);
  }
  for (const gone of known.values()) gone.element.remove();
  parent[BEFORE] = wanted;
}

function flat(children, into = []) {
  for (const child of children) {
    if (Array.isArray(child)) flat(child, into);
    else if (child === null || child === undefined || child === false) continue;
    else if (typeof child === "object") into.push({ ...child });
    else into.push({ tag: TEXT, text: String(child), props: {}, children: [] });
  }
  return into;
}

/** Who has no key is the n-th of its tag, so that one element more or less of another kind changes nothing. */
function named(nodes) {
  const seen = {};
  for (const node of nodes) {
    seen[node.tag] = (seen[node.tag] ?? 0) + 1;
    node.name = node.key === undefined ? `${node.tag} ${seen[node.tag]}` : `key ${node.key}`;
  }
  return nodes;
}

function create(node) {
  return node.tag === TEXT ? document.createTextNode("") : document.createElement(node.tag);
}

function update(node, old) {
  const { element } = node;
  if (node.tag === TEXT) {
    if (element.data !== node.text) element.data = node.text;
    return;
  }
  const before = old?.props ?? {};
  for (const name of Object.keys(before)) if (!(name in node.props)) set(element, name, null, before[name]);
  for (const [name, value] of Object.entries(node.props)) set(element, name, value, before[name]);
  render(element, node.children);
}

function set(element, name, value, before) {
  if (name === "key") return;
  if (name === "vars") {
    for (const [key, text] of Object.entries(value ?? {})) {
      if (before?.[key] !== text) element.style.setProperty(`--${key}`, text);
    }
  } else if (name.startsWith("on")) {
    element[name] = value;
  } else if (name === "value") {
    if (element.value !== String(value ?? "")) element.value = value ?? "";
  } else if (name === "checked") {
    element.checked = Boolean(value);
  } else if (value !== before) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
}
