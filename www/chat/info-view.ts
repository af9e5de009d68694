// The model sheet: what is loaded and what it holds.
import type { Model } from 'tokenbrook';
import { role } from '../shared/dom.js';
import { describeFailure, formatBytes } from '../shared/format.js';

/** Fills the sheet from the model; figures of memory are asked for anew each time. */
export async function showInfo(root: HTMLElement, model: Model | null): Promise<void> {
  const memoryList = role(root, 'memory');
  if (model === null) {
    fill(role(root, 'info'), [['State', 'Lost: the next message loads it again.']]);
    fill(memoryList, [['In use', 'none']]);
    return;
  }
  const { info } = model;
  fill(role(root, 'info'), [
    ['Name', info.name],
    ['Architecture', info.architecture],
    ['Quantization', info.quantization],
    ['Parameters', formatParameters(info.parameters)],
    ['Context length', `${info.contextLength.toLocaleString('en-US')} tokens`],
    ['Backend', info.backend],
    ['Reason', info.backendReason],
    ['Precision', info.precision],
    ['Threads', `${info.threads} (${info.threadsReason})`],
    ['Adapter', info.adapter],
    ['Kernels', info.gpu === null ? null : kernels(info.gpu.variants)],
    ['WebAssembly', info.wasmVariant],
  ]);
  try {
    const memory = await model.memory();
    fill(memoryList, [
      ['Weights', formatBytes(memory.weightsBytes)],
      ['KV cache', formatBytes(memory.kvCacheBytes)],
      ['Scratch', formatBytes(memory.scratchBytes)],
      ['WebAssembly heap', formatBytes(memory.wasmHeapBytes)],
    ]);
  } catch (thrown) {
    fill(memoryList, [['Not known', describeFailure(thrown).message]]);
  }
}

/** `norm Serial, linearOne Q4_1 Rows`: the variant of each. */
function kernels(
  variants: readonly { role: string; format: string | null; variant: string }[],
): string {
  const words = ({ role, format, variant }: (typeof variants)[number]) =>
    [role, format, variant].filter((word) => word !== null).join(' ');
  return variants.map(words).join(', ');
}

/** `134.5 M`, `1.24 B`: as models are spoken of. */
function formatParameters(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} B`;
  return `${(count / 1e6).toFixed(1)} M`;
}

/** Replaces a list's terms; those without a value are left out. */
function fill(list: HTMLElement, rows: readonly (readonly [string, string | null])[]): void {
  const groups = rows.flatMap(([term, value]) => {
    if (value === null || value === '') return [];
    const group = document.createElement('div');
    const dt = document.createElement('dt');
    const dd = document.createElement('dd');
    dt.textContent = term;
    dd.textContent = value;
    group.append(dt, dd);
    return [group];
  });
  list.replaceChildren(...groups);
}
