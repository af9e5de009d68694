// Access to the page's own markup. A missing element is a mistake of ours, found at start-up.

/** The one element that `selector` names, of the class that the caller relies on. */
export function find<T extends Element>(
  root: ParentNode,
  selector: string,
  type: new () => T,
): T {
  const found = root.querySelector(selector);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} at ${selector}`);
  return found;
}

/** The one element whose `data-role` is `name`. */
export function role(root: ParentNode, name: string): HTMLElement {
  return find(root, `[data-role="${name}"]`, HTMLElement);
}

/** The one element whose `data-field` is `name`: a place for text. */
export function field(root: ParentNode, name: string): HTMLElement {
  return find(root, `[data-field="${name}"]`, HTMLElement);
}

/** The button whose `data-action` is `name`. */
export function action(root: ParentNode, name: string): HTMLButtonElement {
  return find(root, `[data-action="${name}"]`, HTMLButtonElement);
}

/** A copy of the single element inside a `<template>`. */
export function instantiate(templateId: string): HTMLElement {
  const template = find(document, `#${templateId}`, HTMLTemplateElement);
  const copy = template.content.firstElementChild?.cloneNode(true);
  if (!(copy instanceof HTMLElement)) throw new Error(`template ${templateId} is empty`);
  return copy;
}
