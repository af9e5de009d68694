// The models that are kept on this device: what is there of each, to load, go on with, or delete.
import { models, type StoredModel } from 'tokenbrook';
import { announce } from '../shared/announcer.js';
import { field, role } from '../shared/dom.js';
import { formatBytes, formatProgress, nameOfUrl } from '../shared/format.js';
import type { ModelChoice } from '../shared/models.js';

export class KeptView {
  readonly #places: readonly HTMLElement[];
  readonly #onChoose: (choice: ModelChoice) => void;

  constructor(places: readonly HTMLElement[], onChoose: (choice: ModelChoice) => void) {
    this.#places = places;
    this.#onChoose = onChoose;
  }

  /** Looks at what is there by now. */
  async refresh(): Promise<void> {
    const kept = await models.list().catch((): StoredModel[] => []);
    const total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const place of this.#places) {
      place.hidden = kept.length === 0;
      field(place, 'kept-total').textContent = formatBytes(total);
      role(place, 'kept-list').replaceChildren(...kept.map((model) => this.#item(model)));
    }
  }

  #item(model: StoredModel): HTMLLIElement {
    const { source, bytes, totalBytes, state } = model;
    const name = nameOfUrl(source);
    const isWhole = state === 'verified';
    const text = document.createElement('span');
    text.textContent = `${name} `;
    const size = document.createElement('span');
    size.className = 'size figures';
    size.textContent = isWhole ? formatBytes(bytes) : formatProgress(bytes, totalBytes);
    const choice = { name, source, bytes: totalBytes };
    const item = document.createElement('li');
    item.dataset['state'] = state;
    item.append(
      text,
      size,
      button(isWhole ? 'Load' : 'Resume', name, 'load-kept', () => this.#onChoose(choice)),
      button('Delete', name, 'delete-kept', () => void this.#delete(source, name)),
    );
    return item;
  }

  async #delete(source: string, name: string): Promise<void> {
    await models.delete(source);
    announce(`${name} is deleted.`);
    await this.refresh();
  }
}

function button(text: string, of: string, action: string, run: () => void): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = 'quiet bordered';
  made.dataset['action'] = action;
  made.textContent = text;
  made.setAttribute('aria-label', `${text} ${of}`);
  made.addEventListener('click', run);
  return made;
}
