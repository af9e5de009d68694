// The lab page: six sections, one to be seen at a time, each with its settings in the address.
import 'uplot/dist/uPlot.min.css';
import { find, role } from '../shared/dom.js';
import { formatHash, parseHash } from './address.js';
import { breaks } from './breaks.js';
import { calculators } from './calculators.js';
import { delivery } from './delivery.js';
import { bindLocalModel } from './local-model.js';
import { overload } from './overload.js';
import { paths } from './paths.js';
import type { Section, SectionMaker } from './section.js';
import { wait } from './wait.js';

const MAKERS: Readonly<Record<string, SectionMaker>> = {
  wait, breaks, paths, calculators, overload, delivery,
};
const FIRST = 'wait';

const made = new Map<string, Section>();
let open = '';

/** Shows what the address names; settings in it go to the section. */
function follow(): void {
  const { section: named, params } = parseHash(location.hash);
  const name = Object.hasOwn(MAKERS, named) ? named : FIRST;
  const section = sectionOf(name);
  if (name !== open) {
    made.get(open)?.stop?.();
    open = name;
    for (const id of Object.keys(MAKERS)) place(id).hidden = id !== name;
    for (const link of links()) {
      if (link.dataset['section'] === name) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    document.title = `${place(name).querySelector('h2')?.textContent ?? ''} · tokenbrook`;
    // On a phone the row of links scrolls.
    currentLink()?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  section.apply(params);
  section.shown?.();
  remember(name);
}

function sectionOf(name: string): Section {
  const known = made.get(name);
  if (known !== undefined) return known;
  const make = MAKERS[name];
  if (make === undefined) throw new Error(`there is no section ${name}`);
  const section = make(role(place(name), 'body'), { changed: () => changed(name) });
  made.set(name, section);
  return section;
}

function changed(name: string): void {
  const params = made.get(name)?.params() ?? new URLSearchParams();
  if (name === open) history.replaceState(null, '', formatHash({ section: name, params }));
  remember(name);
}

/** A link to a section leads to it as it is. */
function remember(name: string): void {
  const params = made.get(name)?.params() ?? new URLSearchParams();
  for (const link of links()) {
    if (link.dataset['section'] === name) link.href = formatHash({ section: name, params });
  }
}

function place(name: string): HTMLElement {
  return find(document, `section[data-section="${name}"]`, HTMLElement);
}

function links(): HTMLAnchorElement[] {
  return [...document.querySelectorAll<HTMLAnchorElement>('nav a[data-section]')];
}

function currentLink(): HTMLAnchorElement | undefined {
  return links().find((link) => link.hasAttribute('aria-current'));
}

addEventListener('hashchange', follow);
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
  made.get(open)?.stop?.();
});
follow();
void bindLocalModel();
