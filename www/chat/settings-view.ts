// The settings sheet: a form that keeps every valid change at once.
import { action, find, role } from '../shared/dom.js';
import {
  assignBlank, DEFAULTS, parseNumber, readSettings, RULES, storeSettings,
  type NumberField, type Settings,
} from '../shared/settings.js';

const FIELDS = Object.keys(RULES) as NumberField[];

export class SettingsView {
  readonly values: Settings = readSettings();
  readonly #dialog: HTMLDialogElement;
  readonly #form: HTMLFormElement;
  readonly #onChange: () => void;

  constructor(dialog: HTMLDialogElement, onChange: () => void) {
    this.#dialog = dialog;
    this.#form = find(dialog, '[data-role="settings-form"]', HTMLFormElement);
    this.#onChange = onChange;
    this.#form.addEventListener('submit', (event) => event.preventDefault());
    // Kept while typing, as Escape closes the sheet from within a field; complaints wait for the
    // end of the entry.
    this.#form.addEventListener('input', (event) => this.#take(event.target, false));
    this.#form.addEventListener('change', (event) => this.#take(event.target, true));
    action(dialog, 'reset-settings').addEventListener('click', () => {
      Object.assign(this.values, DEFAULTS);
      this.#fill();
      this.#changed();
    });
    this.#fill();
  }

  open(): void {
    this.#fill();
    this.#dialog.showModal();
  }

  close(): void {
    this.#dialog.close();
  }

  /** Says that what is loaded was loaded with other settings, and offers to load it again. */
  setReloadNotice(shown: boolean): void {
    role(this.#dialog, 'reload-notice').hidden = !shown;
  }

  #fill(): void {
    for (const name of FIELDS) {
      const input = this.#input(name);
      input.value = this.values[name] === null ? '' : String(this.values[name]);
      this.#complain(input, null);
    }
    this.#prompt().value = this.values.systemPrompt;
    this.#backend().value = this.values.backend;
    this.#precision().value = this.values.precision;
  }

  #take(target: EventTarget | null, complain: boolean): void {
    if (target === this.#prompt()) {
      this.values.systemPrompt = this.#prompt().value;
    } else if (target === this.#backend()) {
      this.values.backend = this.#backend().value as Settings['backend'];
    } else if (target === this.#precision()) {
      this.values.precision = this.#precision().value as Settings['precision'];
    } else if (target instanceof HTMLInputElement) {
      if (!this.#takeNumber(target, complain)) return;
    }
    this.#changed();
  }

  #takeNumber(input: HTMLInputElement, complain: boolean): boolean {
    const name = input.name as NumberField;
    const parsed = parseNumber(name, input.value);
    if ('problem' in parsed) {
      if (complain) this.#complain(input, parsed.problem);
      return false;
    }
    if (parsed.value === null) assignBlank(this.values, name);
    else this.values[name] = parsed.value;
    this.#complain(input, null);
    return true;
  }

  #complain(input: HTMLInputElement, problem: string | null): void {
    const label = input.closest('label');
    let place = label?.querySelector<HTMLElement>('.problem') ?? null;
    if (place === null) {
      place = document.createElement('span');
      place.className = 'problem';
      place.setAttribute('role', 'alert');
      label?.append(place);
    }
    place.textContent = problem ?? '';
    place.hidden = problem === null;
    input.setAttribute('aria-invalid', String(problem !== null));
  }

  #changed(): void {
    storeSettings(this.values);
    this.#onChange();
  }

  #input(name: NumberField): HTMLInputElement {
    return find(this.#form, `input[name="${name}"]`, HTMLInputElement);
  }

  #prompt(): HTMLTextAreaElement {
    return find(this.#form, 'textarea[name="systemPrompt"]', HTMLTextAreaElement);
  }

  #backend(): HTMLSelectElement {
    return find(this.#form, 'select[name="backend"]', HTMLSelectElement);
  }

  #precision(): HTMLSelectElement {
    return find(this.#form, 'select[name="precision"]', HTMLSelectElement);
  }
}
