// The ways to choose a model: the list beside the page, an address, files, a drop on the page.
import { field, find, role } from './dom.js';
import { h } from './elements.js';
import { formatBytes } from './format.js';
import { choiceFromFiles, choiceFromUrl, type ModelChoice } from './models.js';

/**
 * Builds a chooser into `place`; the first model of the list is the one offered foremost. `verb`
 * is what choosing does.
 */
export function createChooser(
  place: HTMLElement,
  models: readonly ModelChoice[],
  onChoose: (choice: ModelChoice) => void,
  verb = 'Load',
): void {
  const chooser = chooserElement(verb);
  const list = role(chooser, 'models');
  list.hidden = models.length === 0;
  list.replaceChildren(...models.map((model, index) => 
    modelItem(model, index === 0, onChoose, verb)));
  find(chooser, 'details', HTMLDetailsElement).open = models.length === 0;
  bindUrl(chooser, onChoose);
  const files = find(chooser, '[data-role="file"]', HTMLInputElement);
  files.addEventListener('change', () => {
    const choice = choiceFromFiles([...(files.files ?? [])]);
    // Choosing the same file again must be a change.
    files.value = '';
    if (choice !== null) onChoose(choice);
  });
  place.replaceChildren(chooser);
}

function chooserElement(verb: string): HTMLElement {
  const address = h('input', {
    type: 'url', name: 'url', required: true, spellcheck: 'false', autocomplete: 'off',
    placeholder: 'https://…/model.gguf',
  });
  const files = h('input', {
    type: 'file', accept: '.gguf', multiple: true, 'data-role': 'file',
  });
  return h('div', { class: 'chooser' },
    h('ul', { class: 'models', 'data-role': 'models', hidden: true }),
    h('details', { 'data-role': 'other' },
      h('summary', {}, 'Use another model'),
      h('form', { 'data-role': 'url-form', novalidate: true },
        h('label', {}, h('span', {}, 'Address of a GGUF file'), ' ', address),
        h('button', { type: 'submit' }, verb),
        h('p', {
          class: 'problem', 'data-field': 'url-problem', role: 'alert', hidden: true,
        })),
      h('label', { class: 'file' },
        h('span', {}, 'A GGUF file on this device'), ' ', files, ' ',
        h('small', {}, 'Choose all parts of a split file together, or drop them on the page.'))));
}

function modelItem(
  model: ModelChoice,
  foremost: boolean,
  onChoose: (choice: ModelChoice) => void,
  verb: string,
): HTMLLIElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = foremost ? 'primary' : 'quiet bordered';
  button.dataset['action'] = 'load-listed';
  const name = document.createElement('span');
  name.textContent = `${verb} ${model.name}`;
  button.append(name);
  if (model.bytes !== null) {
    const size = document.createElement('span');
    size.className = 'size figures';
    size.textContent = formatBytes(model.bytes);
    button.append(' ', size);
  }
  button.addEventListener('click', () => onChoose(model));
  const item = document.createElement('li');
  item.append(button);
  return item;
}

function bindUrl(chooser: HTMLElement, onChoose: (choice: ModelChoice) => void): void {
  const form = find(chooser, '[data-role="url-form"]', HTMLFormElement);
  const input = find(form, 'input', HTMLInputElement);
  const problem = field(form, 'url-problem');
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const choice = choiceFromUrl(input.value, location.href);
    problem.hidden = choice !== null;
    input.setAttribute('aria-invalid', String(choice === null));
    if (choice === null) {
      problem.textContent = 'Give the address of a GGUF file, such as https://host/model.gguf.';
      input.focus();
    } else {
      onChoose(choice);
    }
  });
}

/** Lets files be dropped anywhere on the page; `overlay` shows while they hover. */
export function acceptDrops(overlay: HTMLElement, onChoose: (choice: ModelChoice) => void): void {
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true;
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    overlay.hidden = false;
  });
  document.addEventListener('dragleave', (event) => {
    // Leaving the window has no element to go to.
    if (event.relatedTarget === null) overlay.hidden = true;
  });
  document.addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    overlay.hidden = true;
    const choice = choiceFromFiles([...(event.dataTransfer?.files ?? [])]);
    if (choice !== null) onChoose(choice);
  });
}
