// The chat page: builds its parts, wires them, and shows the state that they are in.
import { announce } from '../shared/announcer.js';
import { ChatControl } from './chat-control.js';
import { acceptDrops, createChooser } from '../shared/chooser.js';
import { bindDiagnosis } from './diagnosis-view.js';
import { action, field, find, role } from '../shared/dom.js';
import { downloadJson } from '../shared/download.js';
import { showInfo } from './info-view.js';
import { KeptView } from './kept-view.js';
import { LoadView } from '../shared/load-view.js';
import { ModelControl, type Cache } from '../shared/model-control.js';
import { offeredModels, type ModelChoice } from '../shared/models.js';
import { ScrollFollower } from './scroll.js';
import { SettingsView } from './settings-view.js';
import { keepEngine, keepPages } from '../shell.js';

const STARTERS = [
  'Why do rivers bend?',
  'Write four lines about rain on a tent.',
  'Explain what a token is to a child.',
];

const scroll = new ScrollFollower(role(document, 'scroller'), action(document, 'jump'));
const settings = new SettingsView(
  find(document, 'dialog[data-role="settings"]', HTMLDialogElement),
  () => render(),
);
const models = new ModelControl(
  new LoadView(role(document, 'loading-place'), 'h2', () => models.cancel()),
  settings.values,
  () => render(),
);
const chat = new ChatControl(
  role(document, 'transcript'), models, settings.values, scroll, () => render(),
);
const kept = new KeptView(
  [...document.querySelectorAll<HTMLElement>('[data-role="kept"]')],
  (choice) => void loadModel(choice),
);
const modelDialog = find(document, 'dialog[data-role="model-dialog"]', HTMLDialogElement);
const composer = find(document, '[data-role="composer"]', HTMLFormElement);
const message = find(composer, 'textarea', HTMLTextAreaElement);

/** Shows the present state; every change of it ends here. */
function render(): void {
  const { model, choice, failure, isLoading } = models;
  const empty = chat.conversation.isEmpty;
  const busy = chat.isBusy && !isLoading;
  const state = isLoading ? 'loading' : busy ? 'generating' : choice && model ? 'ready' : 'setup';
  document.body.dataset['state'] = state;

  const lost = choice !== null && model === null && failure === null && !empty;
  role(document, 'setup').hidden = model !== null || isLoading || lost;
  role(document, 'load-error').hidden = failure === null;
  field(document, 'load-error-message').textContent = failure?.message ?? '';
  field(document, 'load-error-code').textContent = failure?.code ?? '';
  action(document, 'run-from-memory').hidden = failure?.code !== 'storage-full';
  role(document, 'ready').hidden = model === null || !empty;
  role(document, 'cleared').hidden = !chat.canUndoClear;
  field(document, 'ready-lead').textContent = model === null ? ''
    : `${model.info.name} is loaded and answers from this tab.`;

  action(document, 'open-model').hidden = model === null && !lost;
  action(document, 'open-model').dataset['lost'] = String(lost);
  field(document, 'model-name').textContent = model?.info.name ?? choice?.name ?? '';
  action(document, 'new-conversation').hidden = empty;
  settings.setReloadNotice(models.isOutdated);

  composer.hidden = model === null && !isLoading && !lost;
  const keepFocus = document.activeElement === action(document, 'stop');
  action(document, 'stop').hidden = !busy;
  action(document, 'send').hidden = busy;
  if (keepFocus && !busy) message.focus();
  renderSend();
}

function renderSend(): void {
  action(document, 'send').disabled = models.isLoading || message.value.trim() === '';
}

/** Puts the caret into the message field, except where that would raise a keyboard unasked. */
function focusMessage(): void {
  if (!matchMedia('(pointer: coarse)').matches) message.focus();
}

async function loadModel(choice: ModelChoice, cache: Cache = 'opfs'): Promise<void> {
  chat.stop();
  modelDialog.close();
  settings.close();
  const loading = models.load(choice, cache);
  action(document, 'cancel-load').focus();
  const model = await loading;
  void kept.refresh();
  if (models.isLoading) return;
  if (model !== null) {
    announce(`${model.info.name} is ready.`);
    keepEngine(model.info.wasmVariant);
    focusMessage();
  } else if (models.failure !== null) {
    announce(`The model did not load. ${models.failure.message}`);
    action(document, 'retry-load').focus();
  } else {
    announce('Loading was cancelled.');
    find(document, '[data-role="setup-chooser"] :is(button, summary)', HTMLElement).focus();
  }
  if (!chat.conversation.isEmpty) scroll.follow();
}

function send(): void {
  if (!chat.send(message.value)) return;
  message.value = '';
  sizeMessage();
  renderSend();
}

/** Grows the field with its text where style sheets cannot (`field-sizing`). */
function sizeMessage(): void {
  if (CSS.supports('field-sizing', 'content')) return;
  message.style.height = 'auto';
  message.style.height = `${message.scrollHeight}px`;
}

function download(): void {
  const data = chat.conversation.export({
    exportedAt: new Date().toISOString(),
    model: models.model?.info ?? null,
    settings: settings.values,
  });
  downloadJson('conversation', data);
}

function bindKeyboard(): void {
  message.addEventListener('keydown', (event) => {
    // Enter also confirms a composed character; that one is not for sending.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
    if (models.isLoading) models.cancel();
    else chat.stop();
  });
}

function bindButtons(): void {
  const on = (name: string, run: () => void) =>
    action(document, name).addEventListener('click', run);
  on('stop', () => chat.stop());
  on('retry-load', () => {
    if (models.choice !== null) void loadModel(models.choice);
  });
  on('run-from-memory', () => {
    if (models.choice !== null) void loadModel(models.choice, 'none');
  });
  on('reload', () => {
    if (models.choice !== null) void loadModel(models.choice);
  });
  on('open-settings', () => settings.open());
  on('open-model', () => {
    modelDialog.showModal();
    void showInfo(modelDialog, models.model);
    void kept.refresh();
  });
  on('new-conversation', () => {
    chat.clear();
    focusMessage();
  });
  on('undo-clear', () => chat.undoClear());
  on('download', download);
  composer.addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
  message.addEventListener('input', () => {
    renderSend();
    sizeMessage();
  });
  // A click beside a sheet closes it.
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.addEventListener('click', (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
}

function buildStarters(): void {
  role(document, 'starters').replaceChildren(...STARTERS.map((text) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'quiet bordered';
    button.textContent = text;
    button.addEventListener('click', () => {
      chat.send(text);
      focusMessage();
    });
    const item = document.createElement('li');
    item.append(button);
    return item;
  }));
}

/** Offers the models of the list; `?model=URL` goes first, `?autoload=1` loads the first. */
async function offerModels(): Promise<void> {
  const query = new URLSearchParams(location.search);
  const choices = await offeredModels('models/index.json');
  const choose = (choice: ModelChoice) => void loadModel(choice);
  createChooser(role(document, 'setup-chooser'), choices, choose);
  createChooser(role(document, 'dialog-chooser'), choices, choose);
  const [foremost] = choices;
  if (query.get('autoload') === '1' && foremost !== undefined) choose(foremost);
}

acceptDrops(role(document, 'drop'), (choice) => void loadModel(choice));
bindKeyboard();
bindButtons();
bindDiagnosis(find(document, '[data-role="diagnosis"]', HTMLDetailsElement));
buildStarters();
render();
void kept.refresh();
void offerModels();
void keepPages();
