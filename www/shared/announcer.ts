// Says what changed to assistive technology: states, never single tokens.
import { role } from './dom.js';

const region = role(document, 'announcer');

/** Announces one sentence, after what is being read. The same sentence is announced again. */
export function announce(sentence: string): void {
  region.textContent = '';
  // A live region speaks when its content changes between two frames.
  requestAnimationFrame(() => {
    region.textContent = sentence;
  });
}
