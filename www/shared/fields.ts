// What a section can be told: fields with limits, as text in forms and in the page's address.

interface Common {
  label: string;
  hint?: string;
}

export interface NumberField extends Common {
  kind: 'number';
  value: number;
  min: number;
  max: number;
  whole: boolean;
  unit: string;
}

export interface ChoiceField<T extends string = string> extends Common {
  kind: 'choice';
  value: T;
  options: Readonly<Record<T, string>>;
}

export interface FlagField extends Common {
  kind: 'flag';
  value: boolean;
}

export interface TextField extends Common {
  kind: 'text';
  value: string;
  maxLength: number;
  lines: number;
}

export type Field = NumberField | ChoiceField | FlagField | TextField;
export type Fields = Readonly<Record<string, Field>>;
export type Values<F extends Fields> = { [K in keyof F]: F[K]['value'] };

type Whole = Pick<Common, 'hint'> & { unit?: string };

/** A whole number. */
export function count(
  label: string, value: number, [min, max]: readonly [number, number], more: Whole = {},
): NumberField {
  const { unit = '', ...rest } = more;
  return { kind: 'number', label, value, min, max, whole: true, unit, ...rest };
}

/** A number that may have a fraction. */
export function amount(
  label: string, value: number, limits: readonly [number, number], more: Whole = {},
): NumberField {
  return { ...count(label, value, limits, more), whole: false };
}

export function choice<T extends string>(
  label: string, value: NoInfer<T>, options: Readonly<Record<T, string>>, hint?: string,
): ChoiceField<T> {
  return { kind: 'choice', label, value, options, ...(hint !== undefined && { hint }) };
}

export function flag(label: string, value: boolean, hint?: string): FlagField {
  return { kind: 'flag', label, value, ...(hint !== undefined && { hint }) };
}

export function text(
  label: string, value: string, more: { maxLength?: number; lines?: number; hint?: string } = {},
): TextField {
  const { maxLength = 2000, lines = 1, ...rest } = more;
  return { kind: 'text', label, value, maxLength, lines, ...rest };
}

export type Parsed<T> = { value: T } | { problem: string };

/** What a field's text means, or a sentence on what is wrong with it. */
export function parseField<F extends Field>(field: F, entered: string): Parsed<F['value']> {
  switch (field.kind) {
    case 'number':
      return parseNumber(field, entered);
    case 'choice':
      if (Object.hasOwn(field.options, entered)) return { value: entered };
      return { problem: `${field.label} is one of ${Object.keys(field.options).join(', ')}.` };
    case 'flag':
      if (entered === '1' || entered === '0') return { value: entered === '1' };
      return { problem: `${field.label} is 1 or 0.` };
    case 'text':
      if (entered.length <= field.maxLength) return { value: entered };
      return { problem: `${field.label} has at most ${field.maxLength} characters.` };
  }
}

function parseNumber(field: NumberField, entered: string): Parsed<number> {
  const plain = entered.trim().replaceAll(',', '');
  const value = plain === '' ? NaN : Number(plain);
  const fits = Number.isFinite(value) && value >= field.min && value <= field.max;
  if (fits && (!field.whole || Number.isInteger(value))) return { value };
  const [min, max] = [field.min, field.max].map((limit) => limit.toLocaleString('en-US'));
  const noun = field.whole ? 'a whole number' : 'a number';
  return { problem: `${field.label} is ${noun} from ${min} to ${max}.` };
}

/** A value as `parseField` takes it. */
export function fieldText(value: Field['value']): string {
  return typeof value === 'boolean' ? (value ? '1' : '0') : String(value);
}

export function defaults<F extends Fields>(fields: F): Values<F> {
  const entries = Object.entries(fields).map(([name, field]) => [name, field.value]);
  return Object.fromEntries(entries) as Values<F>;
}

/** What differs from the defaults. */
export function toParams<F extends Fields>(fields: F, values: Values<F>): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, field] of Object.entries(fields)) {
    const value = values[name];
    if (value !== undefined && value !== field.value) params.set(name, fieldText(value));
  }
  return params;
}

/** Values from an address; what does not fit has its default. */
export function fromParams<F extends Fields>(fields: F, params: URLSearchParams): Values<F> {
  const values: Record<string, Field['value']> = defaults(fields);
  for (const [name, field] of Object.entries(fields)) {
    const entered = params.get(name);
    if (entered === null) continue;
    const parsed = parseField(field, entered);
    if ('value' in parsed) values[name] = parsed.value;
  }
  return values as Values<F>;
}
