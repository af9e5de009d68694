// Settings: their limits, their text forms, and their place in the browser's storage.
import type { GenerateOptions, LoadOptions } from 'tokenbrook';

export interface Settings {
  systemPrompt: string;
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  /** Tokens; null: up to the context's end. */
  maxTokens: number | null;
  /** null: a new one for each answer. */
  seed: number | null;
  backend: 'auto' | 'webgpu' | 'cpu';
  precision: 'auto' | 'exact' | 'fast';
  /** Tokens; null: the package's default. */
  contextLength: number | null;
}

export type NumberField = {
  [K in keyof Settings]: Settings[K] extends number | null ? K : never;
}[keyof Settings];

interface Rule {
  name: string;
  min: number;
  max: number;
  whole: boolean;
  optional: boolean;
}

/** Limits of each number, as the form and the stored settings are held to them. */
export const RULES: Record<NumberField, Rule> = {
  temperature: { name: 'Temperature', min: 0, max: 5, whole: false, optional: false },
  topK: { name: 'Top-k', min: 0, max: 100_000, whole: true, optional: false },
  topP: { name: 'Top-p', min: 0.01, max: 1, whole: false, optional: false },
  minP: { name: 'Min-p', min: 0, max: 1, whole: false, optional: false },
  maxTokens: { name: 'Longest answer', min: 1, max: 1_000_000, whole: true, optional: true },
  // 2^32 - 1: seeds stay exact in every number type on the way.
  seed: { name: 'Seed', min: 0, max: 4_294_967_295, whole: true, optional: true },
  contextLength: { name: 'Context length', min: 16, max: 1_000_000, whole: true, optional: true },
};

export const DEFAULTS: Readonly<Settings> = {
  systemPrompt: '',
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0,
  maxTokens: 512,
  seed: null,
  backend: 'auto',
  precision: 'auto',
  contextLength: null,
};

const BACKENDS: readonly string[] = ['auto', 'webgpu', 'cpu'];
const PRECISIONS: readonly string[] = ['auto', 'exact', 'fast'];
const STORAGE_KEY = 'tokenbrook.chat.settings';

/** A field's text as a number, null for an allowed blank, or the sentence that says why not. */
export function parseNumber(
  field: NumberField,
  text: string,
): { value: number | null } | { problem: string } {
  const rule = RULES[field];
  const trimmed = text.trim().replace(',', '.');
  if (trimmed === '') {
    return rule.optional ? { value: null } : { problem: `${rule.name} needs a number.` };
  }
  const value = Number(trimmed);
  if (isAllowed(field, value)) return { value };
  const kind = rule.whole ? 'a whole number' : 'a number';
  const limits = `${rule.min.toLocaleString('en-US')} to ${rule.max.toLocaleString('en-US')}`;
  return { problem: `${rule.name} is ${kind} from ${limits}.` };
}

function isAllowed(field: NumberField, value: unknown): value is number {
  const rule = RULES[field];
  return typeof value === 'number' && value >= rule.min && value <= rule.max
    && (!rule.whole || Number.isInteger(value));
}

/** Settings from stored JSON; whatever is absent or out of its limits takes its default. */
export function settingsFromJson(json: string | null): Settings {
  const settings: Settings = { ...DEFAULTS };
  let stored: unknown;
  try {
    stored = JSON.parse(json ?? 'null');
  } catch {
    return settings;
  }
  if (typeof stored !== 'object' || stored === null) return settings;
  const values = stored as Record<string, unknown>;
  for (const field of Object.keys(RULES) as NumberField[]) {
    const value = values[field];
    if (isAllowed(field, value)) settings[field] = value;
    else if (value === null) assignBlank(settings, field);
  }
  const { systemPrompt, backend, precision } = values;
  if (typeof systemPrompt === 'string') settings.systemPrompt = systemPrompt;
  if (typeof backend === 'string' && BACKENDS.includes(backend)) {
    settings.backend = backend as Settings['backend'];
  }
  if (typeof precision === 'string' && PRECISIONS.includes(precision)) {
    settings.precision = precision as Settings['precision'];
  }
  return settings;
}

/** Blanks a number that may be blank; false where it may not. */
export function assignBlank(settings: Settings, field: NumberField): boolean {
  if (field !== 'maxTokens' && field !== 'seed' && field !== 'contextLength') return false;
  settings[field] = null;
  return true;
}

/** Reads the stored settings; a browser that refuses storage gets the defaults. */
export function readSettings(): Settings {
  try {
    return settingsFromJson(localStorage.getItem(STORAGE_KEY));
  } catch {
    return { ...DEFAULTS };
  }
}

/** Keeps the settings; where storage is refused or full they last as long as the page. */
export function storeSettings(settings: Settings): void {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(settings));
  } catch {
    // Nothing is lost but the memory of it.
  }
}

/** The settings that a generation takes. */
export function generateOptions(settings: Settings): GenerateOptions {
  return {
    temperature: settings.temperature,
    topK: settings.topK,
    topP: settings.topP,
    minP: settings.minP,
    ...(settings.maxTokens === null ? {} : { maxTokens: settings.maxTokens }),
    ...(settings.seed === null ? {} : { seed: settings.seed }),
  };
}

/** The settings that loading takes. */
export function loadOptions(settings: Settings): LoadOptions {
  return {
    backend: settings.backend,
    precision: settings.precision,
    ...(settings.contextLength === null ? {} : { contextLength: settings.contextLength }),
  };
}
