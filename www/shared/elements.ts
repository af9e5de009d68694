// Elements made in place. Text enters as text nodes.

type Attributes = Readonly<Record<string, string | boolean | undefined>>;
type Child = Node | string | undefined;

/** An element with attributes (true: present, false or undefined: absent) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** A button that does `run`. */
export function button(label: string, kind: string, run: () => void): HTMLButtonElement {
  const made = h('button', { type: 'button', class: kind }, label);
  made.addEventListener('click', run);
  return made;
}

let ids = 0;

/** An id that nothing else on the page has. */
export function freshId(stem: string): string {
  ids += 1;
  return `${stem}-${ids}`;
}

export interface Row {
  /** Heads the row. */
  head: string;
  cells: readonly string[];
  /** In small letters under the head. */
  note?: string;
  /** A line of its own kind: `published`, `total`. */
  kind?: string;
}

/** A table of figures that scrolls sideways on its own where it is too wide. */
export function figureTable(
  caption: string, columns: readonly string[], rows: readonly Row[],
): HTMLElement {
  const [first = '', ...others] = columns;
  const head = h('thead', {}, h('tr', {},
    h('th', { scope: 'col' }, first),
    ...others.map((column) => h('th', { scope: 'col' }, column))));
  const body = h('tbody', {}, ...rows.map(({ head: name, note, cells, kind }) =>
    h('tr', { 'data-kind': kind },
      h('th', { scope: 'row' }, name, note === undefined ? undefined : h('small', {}, note)),
      ...cells.map((cell) =>
        h('td', { 'data-kind': /\d/.test(cell) ? undefined : 'words' }, cell)))));
  // A region that scrolls has to be reachable by keyboard.
  return h('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'visually-hidden' }, caption), head, body));
}

/** Names with their values. */
export function facts(entries: readonly (readonly [string, string])[]): HTMLElement {
  return h('dl', { class: 'facts' }, ...entries.map(([name, value]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}
