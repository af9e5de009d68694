// The section of calculators: one card each.
import { CALCULATORS, type Calculator, type Output } from './calculator-list.js';
import { Controls } from '../shared/controls.js';
import { button, facts, h } from '../shared/elements.js';
import { fromParams, toParams } from '../shared/fields.js';
import { Plot } from '../shared/plot.js';
import type { Frame, Section } from './section.js';
import { shareRow } from './share.js';

export function calculators(root: HTMLElement, frame: Frame): Section {
  const cards = CALCULATORS.map((calculator) => new Card(calculator, () => frame.changed()));
  root.append(
    h('div', { class: 'cards' }, ...cards.map((card) => card.root)),
    shareRow(() => ({
      name: 'calculators',
      json: cards.map((card) => card.record()),
      table: {
        columns: ['calculator', 'figure', 'value', 'unit'],
        rows: cards.flatMap((card) => card.outputs.map(({ label, value, unit }) =>
          [card.calculator.title, label, value, unit])),
      },
    })),
  );
  return {
    params: () => new URLSearchParams(cards.flatMap((card) => [...card.params()])),
    apply: (params) => cards.forEach((card) => card.apply(params)),
  };
}

class Card {
  readonly root: HTMLElement;
  readonly calculator: Calculator;
  outputs: Output[] = [];
  readonly #controls: Controls<Calculator['fields']>;
  readonly #results = h('div', { 'data-role': 'results', 'aria-live': 'polite' });
  readonly #plot: Plot | undefined;

  constructor(calculator: Calculator, onChange: () => void) {
    this.calculator = calculator;
    const { id, title, formula, assumes, fields, examples = [] } = calculator;
    this.#controls = new Controls(fields, () => {
      this.#show();
      onChange();
    });
    this.#plot = calculator.drawing === undefined ? undefined : new Plot(title);
    const offers = examples.map(({ label, values }) => button(label, 'link', () => {
      // An undefined value is none: examples name only what they set.
      this.#controls.set(values as Record<string, string | number | boolean>);
      this.#show();
      onChange();
    }));
    this.root = h('article', { class: 'card', 'data-calculator': id },
      h('h3', {}, title),
      h('p', { class: 'formula' }, formula),
      this.#controls.root,
      offers.length === 0 ? undefined : h('p', { class: 'examples' }, 'Such as: ', ...offers),
      this.#results,
      this.#plot?.root,
      h('ul', { class: 'assumes' }, ...assumes.map((line) => h('li', {}, line))));
    this.#show();
  }

  params(): [string, string][] {
    const { id, fields } = this.calculator;
    return [...toParams(fields, this.#controls.values)].map(([name, value]) =>
      [`${id}.${name}`, value]);
  }

  apply(params: URLSearchParams): void {
    const { id, fields } = this.calculator;
    const own = [...params].filter(([name]) => name.startsWith(`${id}.`));
    const named = own.map(([name, value]) => [name.slice(id.length + 1), value]);
    const values = fromParams(fields, new URLSearchParams(named));
    // What stays is not read out again.
    const stays = JSON.stringify(values) === JSON.stringify(this.#controls.values);
    this.#controls.set(values);
    if (!stays) this.#show();
  }

  record(): object {
    const { id, title, formula, assumes } = this.calculator;
    const figures = this.outputs.map(({ label, value, unit }) => ({ label, value, unit }));
    return { id, title, formula, assumes, inputs: this.#controls.values, figures };
  }

  #show(): void {
    const { values } = this.#controls;
    this.outputs = this.calculator.compute(values);
    this.#results.replaceChildren(
      facts(this.outputs.map(({ label, shown }) => [label, shown] as const)),
    );
    const drawing = this.calculator.drawing?.(values);
    if (drawing !== undefined) this.#plot?.draw(drawing);
  }
}
