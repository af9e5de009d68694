// The bench page: how fast a model is on the visitor's own device, engine by engine.
import 'uplot/dist/uPlot.min.css';
import { ready } from 'tokenbrook/measure';
import { announce } from '../shared/announcer.js';
import { acceptDrops, createChooser } from '../shared/chooser.js';
import { Controls } from '../shared/controls.js';
import { action, field, find, role } from '../shared/dom.js';
import { fromParams, toParams } from '../shared/fields.js';
import { describeFailure } from '../shared/format.js';
import { LoadView } from '../shared/load-view.js';
import { offeredModels, type ModelChoice } from '../shared/models.js';
import { saveButtons, type Saved } from '../shared/save.js';
import { keepPages } from '../shell.js';
import { DEFINITIONS, figuresOf, isMeasured, tableOf } from './figures.js';
import { BENCH_FIELDS, planOf, stepsOf, type Plan } from './plan.js';
import { Results } from './results.js';
import { runBench, type Outcome } from './run.js';

/** Why a run is worth nothing. */
class Void extends Error {}

/** A run that is over, whole. */
interface Done {
  at: string;
  model: { name: string; bytes: number | null };
  plan: Plan;
  outcomes: Outcome[];
}

const controls = new Controls(BENCH_FIELDS, () => settled());
const results = new Results();
const status = field(document, 'status');
const bar = find(document, '[data-role="run-progress"]', HTMLProgressElement);
const loading = new LoadView(role(document, 'loading-place'), 'h3', () => stop('Stopped.'));
let abort: AbortController | undefined;
let done: Done | undefined;
let chosen: ModelChoice | undefined;

function render(): void {
  const runs = abort !== undefined;
  document.body.dataset['state'] = runs ? 'running' : done === undefined ? 'setup' : 'done';
  role(document, 'chooser').hidden = runs;
  action(document, 'stop').hidden = !runs;
  action(document, 'again').hidden = runs || chosen === undefined;
  field(document, 'again-name').textContent = chosen?.name ?? '';
  bar.hidden = !runs;
  role(document, 'save').hidden = done === undefined;
  controls.setDisabled(runs);
}

/** Settings are in the address: it can be kept, and handed on. */
function settled(): void {
  const url = new URL(location.href);
  for (const name of Object.keys(BENCH_FIELDS)) url.searchParams.delete(name);
  for (const [name, value] of toParams(BENCH_FIELDS, controls.values)) {
    url.searchParams.set(name, value);
  }
  history.replaceState(null, '', url);
}

async function run(choice: ModelChoice): Promise<void> {
  const planned = planOf(controls.values);
  if ('problem' in planned) return say(planned.problem);
  if (document.hidden) return say('This tab is hidden: show it, then start.');
  const { plan } = planned;
  const own = new AbortController();
  abort?.abort(new Error('Another run took its place.'));
  [abort, chosen, done] = [own, choice, undefined];
  results.clear();
  Object.assign(bar, { max: stepsOf(plan), value: 0 });
  render();
  action(document, 'stop').focus();
  // A phone that goes to sleep hides the tab; where that cannot be prevented the run is void.
  const awake = navigator.wakeLock?.request('screen').catch(() => undefined);
  try {
    await ready;
    const outcomes = await follow(choice, plan, own.signal);
    if (abort !== own) return;
    done = {
      at: new Date().toISOString(), model: { name: choice.name, bytes: choice.bytes },
      plan, outcomes,
    };
    say(verdict(outcomes), true);
  } catch (thrown) {
    if (abort !== own) return;
    results.clear();
    const isVoid = thrown instanceof Void;
    document.body.toggleAttribute('data-void', isVoid);
    say(isVoid ? thrown.message : describeFailure(thrown).message);
  } finally {
    void awake?.then((lock) => lock?.release());
    if (abort === own) {
      abort = undefined;
      loading.end();
      render();
      action(document, 'again').focus();
    }
  }
}

async function follow(
  choice: ModelChoice, plan: Plan, signal: AbortSignal,
): Promise<Outcome[]> {
  const shown: Outcome[] = [];
  document.body.removeAttribute('data-void');
  const step = (what: string): void => {
    bar.value += 1;
    status.textContent = `${what}.`;
  };
  return runBench(choice, plan, {
    signal,
    step,
    loading: (setup) => {
      step(`${setup.name}: loading`);
      loading.start(`${choice.name}, ${setup.name}`, choice.bytes);
    },
    progress: (progress) => {
      if (!signal.aborted) loading.report(progress);
    },
    loaded: () => loading.end(),
    outcome: (outcome) => {
      if (signal.aborted) return;
      shown.push(outcome);
      // What an engine that is missing would have taken.
      if (!isMeasured(outcome)) bar.value = (shown.length / plan.setups.length) * bar.max;
      results.show(shown);
    },
  });
}

function verdict(outcomes: readonly Outcome[]): string {
  const measured = outcomes.filter(isMeasured);
  if (measured.length === 0) return 'Nothing could be measured.';
  const wrong = measured.filter(({ check }) => !check.agrees).map(({ setup }) => setup.name);
  if (wrong.length > 0) return `Done, but the tokens of ${wrong.join(' and ')} are wrong.`;
  return 'Done. All tokens are right.';
}

function say(sentence: string, quietly = false): void {
  status.textContent = sentence;
  if (!quietly || sentence !== '') announce(sentence);
}

function stop(why: string): void {
  abort?.abort(new DOMException(why, 'AbortError'));
}

/** Browsers slow down what is hidden: of a run that was, nothing counts. */
function watchVisibility(): void {
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return;
    abort?.abort(new Void('Void: the tab was hidden during the run. Keep it in sight, and ' +
      'start again.'));
  });
}

function saved(): Saved | undefined {
  if (done === undefined) return undefined;
  const { at, model, plan, outcomes } = done;
  const rows = outcomes.map((outcome) => (isMeasured(outcome) ? {
    ...outcome,
    prompts: outcome.prompts.map((series) => ({ ...figuresOf(series), ...series })),
    reply: { ...figuresOf(outcome.reply), ...outcome.reply },
  } : outcome));
  const { userAgent, hardwareConcurrency } = navigator;
  return {
    name: 'bench',
    json: {
      at, browser: userAgent, hardwareConcurrency, isolated: crossOriginIsolated, model, plan,
      definitions: DEFINITIONS, rows,
    },
    table: tableOf(outcomes),
  };
}

async function start(): Promise<void> {
  const query = new URLSearchParams(location.search);
  controls.set(fromParams(BENCH_FIELDS, query));
  role(document, 'controls').append(controls.root);
  role(document, 'results-place').replaceWith(results.root);
  role(document, 'save').append(...saveButtons(saved));
  action(document, 'stop').addEventListener('click', () => stop('Stopped.'));
  action(document, 'again').addEventListener('click', () => {
    if (chosen !== undefined) void run(chosen);
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') stop('Stopped.');
  });
  watchVisibility();
  void keepPages();
  acceptDrops(role(document, 'drop'), (choice) => void run(choice));
  render();
  const choices = await offeredModels('../models/index.json');
  createChooser(role(document, 'chooser'), choices, (choice) => void run(choice), 'Measure');
}

void start();
