// Form controls of fields: every valid change counts at once, complaints wait for its end.
import { freshId, h } from './elements.js';
import {
  defaults, fieldText, parseField, type Field, type Fields, type Values,
} from './fields.js';

type Input = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

export class Controls<F extends Fields> {
  readonly root: HTMLElement;
  readonly values: Values<F>;
  readonly #fields: F;
  readonly #inputs = new Map<string, Input>();
  readonly #problems = new Map<string, HTMLElement>();
  readonly #onChange: (name: keyof F & string) => void;

  constructor(fields: F, onChange: (name: keyof F & string) => void) {
    this.#fields = fields;
    this.#onChange = onChange;
    this.values = defaults(fields);
    const labels = Object.entries(fields).map(([name, field]) => this.#build(name, field));
    this.root = h('div', { class: 'controls' }, ...labels);
    this.#fill();
  }

  /** Takes values from outside; `onChange` is not called. */
  set(values: Partial<Values<F>>): void {
    Object.assign(this.values, values);
    this.#fill();
  }

  /** The element around a field, to be shown or hidden. */
  place(name: keyof F & string): HTMLElement {
    const place = this.#inputs.get(name)?.closest<HTMLElement>('[data-control]');
    if (!place) throw new Error(`there is no control ${name}`);
    return place;
  }

  setDisabled(disabled: boolean): void {
    for (const input of this.#inputs.values()) input.disabled = disabled;
  }

  #build(name: string, field: Field): HTMLElement {
    const id = freshId(name.replaceAll('.', '-'));
    const hint = field.hint === undefined ? undefined
      : h('small', { id: `${id}-hint` }, field.hint);
    const problem = h('span', { class: 'problem', role: 'alert', hidden: true });
    const input = inputOf(field, { id, name, 'aria-describedby': hint?.id });
    this.#inputs.set(name, input);
    this.#problems.set(name, problem);
    input.addEventListener('input', () => this.#take(name, field, false));
    input.addEventListener('change', () => this.#take(name, field, true));
    const title = h('span', {}, field.label);
    if (field.kind === 'flag') {
      return h('div', { class: 'flag', 'data-control': name },
        h('label', { for: id }, input, title), hint);
    }
    const unit = field.kind === 'number' && field.unit !== ''
      ? h('span', { class: 'unit' }, field.unit) : undefined;
    return h('div', { class: isWide(field) ? 'field wide' : 'field', 'data-control': name },
      h('label', { for: id }, title), h('div', { class: 'entry' }, input, unit), hint, problem);
  }

  #take(name: string, field: Field, complain: boolean): void {
    const input = this.#inputs.get(name);
    if (input === undefined) return;
    const entered = input instanceof HTMLInputElement && input.type === 'checkbox'
      ? fieldText(input.checked) : input.value;
    const parsed = parseField(field, entered);
    if ('problem' in parsed) {
      if (complain) this.#complain(name, parsed.problem);
      return;
    }
    this.#complain(name, null);
    if (this.values[name] === parsed.value) return;
    (this.values as Record<string, Field['value']>)[name] = parsed.value;
    this.#onChange(name);
  }

  #complain(name: string, problem: string | null): void {
    this.#inputs.get(name)?.setAttribute('aria-invalid', String(problem !== null));
    const place = this.#problems.get(name);
    if (place === undefined) return;
    place.textContent = problem ?? '';
    place.hidden = problem === null;
  }

  #fill(): void {
    for (const [name, field] of Object.entries(this.#fields)) {
      const input = this.#inputs.get(name);
      const value = this.values[name] ?? field.value;
      if (input instanceof HTMLInputElement && input.type === 'checkbox') {
        input.checked = value === true;
      } else if (input !== undefined) {
        input.value = fieldText(value);
      }
      this.#complain(name, null);
    }
  }
}

/** Letters that a select of half the width shows. */
const SELECT_LETTERS = 13;

function isWide(field: Field): boolean {
  if (field.kind === 'text') return field.lines > 1;
  if (field.kind !== 'choice') return false;
  return Object.values(field.options).some((label) => label.length > SELECT_LETTERS);
}

function inputOf(field: Field, attributes: Record<string, string | undefined>): Input {
  switch (field.kind) {
    case 'number': {
      const inputmode = field.whole ? 'numeric' : 'decimal';
      return h('input', { ...attributes, inputmode, autocomplete: 'off' });
    }
    case 'flag':
      return h('input', { ...attributes, type: 'checkbox' });
    case 'choice':
      return h('select', attributes, ...Object.entries(field.options).map(([value, label]) =>
        h('option', { value }, label)));
    case 'text':
      if (field.lines > 1) {
        return h('textarea', { ...attributes, rows: String(field.lines) });
      }
      return h('input', { ...attributes, autocomplete: 'off', spellcheck: 'false' });
  }
}
