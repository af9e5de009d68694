// The row under every result: as JSON, as CSV, as a link.
import { announce } from '../shared/announcer.js';
import { parseHash, formatHash } from './address.js';
import { button, h } from '../shared/elements.js';
import { saveButtons, type Saved } from '../shared/save.js';
import { pack } from './packed.js';

export interface Result extends Saved {
  /** What a link carries besides the settings, as small as it can be. */
  shared?: unknown;
}

/** The row; `result` is asked at each press and gives `undefined` where there is none yet. */
export function shareRow(result: () => Result | undefined): HTMLElement {
  const note = h('span', { class: 'figures', 'data-field': 'share-note' });
  const row = h('div', { class: 'share' },
    ...saveButtons(result),
    button('Copy link', 'quiet bordered', () => {
      void linkTo(result()).then(copy).then((said) => {
        note.textContent = said;
        announce(said);
      });
    }),
    note);
  row.setAttribute('role', 'group');
  row.setAttribute('aria-label', 'Take these figures along');
  return row;
}

/** The page's address with the run in it; the address itself is set to it as well. */
async function linkTo(result: Result | undefined): Promise<string> {
  const place = parseHash(location.hash);
  place.params.delete('run');
  if (result?.shared !== undefined) place.params.set('run', await pack(result.shared));
  history.replaceState(null, '', formatHash(place));
  return location.href;
}

async function copy(link: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(link);
    return 'Copied.';
  } catch {
    return 'The browser does not allow copying: take it from the address bar.';
  }
}
