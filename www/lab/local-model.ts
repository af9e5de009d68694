// The model on this device, for the sections that compare it: one, chosen in a sheet.
import type { Model } from 'tokenbrook';
import { announce } from '../shared/announcer.js';
import { acceptDrops, createChooser } from '../shared/chooser.js';
import { action, field, find, role } from '../shared/dom.js';
import { LoadView } from '../shared/load-view.js';
import { ModelControl } from '../shared/model-control.js';
import { offeredModels, type ModelChoice } from '../shared/models.js';
import { DEFAULTS } from '../shared/settings.js';

const dialog = find(document, 'dialog[data-role="model-dialog"]', HTMLDialogElement);
const listeners = new Set<() => void>();

const control = new ModelControl(
  new LoadView(role(document, 'loading-place'), 'h3', () => control.cancel()),
  { ...DEFAULTS }, render,
);

/** The loaded model, `null` where there is none. */
export function localModel(): Model | null {
  return control.model;
}

/** `run` is called when a model has come or gone. */
export function onLocalModel(run: () => void): void {
  listeners.add(run);
}

/** Opens the sheet in which one is chosen. */
export function chooseLocalModel(): void {
  dialog.showModal();
}

function render(): void {
  const { model, failure, isLoading } = control;
  field(document, 'model-name').textContent = model?.info.name ?? 'Model';
  action(document, 'open-model').dataset['loaded'] = String(model !== null);
  role(document, 'load-error').hidden = failure === null;
  field(document, 'load-error-message').textContent = failure?.message ?? '';
  role(document, 'chooser').hidden = isLoading;
  field(document, 'model-facts').textContent = model === null ? ''
    : `${model.info.quantization}, ${model.info.backend}: ${model.info.backendReason}`;
  for (const run of listeners) run();
}

async function load(choice: ModelChoice): Promise<void> {
  if (!dialog.open) dialog.showModal();
  const model = await control.load(choice);
  if (control.isLoading) return;
  if (model === null) {
    announce(control.failure?.message ?? 'Loading was cancelled.');
    return;
  }
  announce(`${model.info.name} is ready.`);
  dialog.close();
}

/** Wires the sheet. The list of models lies beside the chat page. */
export async function bindLocalModel(): Promise<void> {
  action(document, 'open-model').addEventListener('click', chooseLocalModel);
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  acceptDrops(role(document, 'drop'), (choice) => void load(choice));
  render();
  const query = new URLSearchParams(location.search);
  const choices = await offeredModels('../models/index.json');
  createChooser(role(document, 'chooser'), choices, (choice) => void load(choice));
  const [foremost] = choices;
  if (query.get('autoload') === '1' && foremost !== undefined) void load(foremost);
}
