// Writes small GGUF files: a header of the given metadata and tensors, and their data.
// Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3.

const ALIGNMENT = 32;

/** ggml's ids of the types used here. */
export const F32 = 0;
export const Q8_0 = 8;
/** A type that exists and that nothing here computes with. */
export const IQ2_XXS = 16;

export type Value =
  | { u32: number }
  | { f32: number }
  | { bool: boolean }
  | { text: string }
  | { texts: string[] }
  | { i32s: number[] };

export interface Tensor {
  name: string;
  /** First entry contiguous, as in the file. */
  shape: number[];
  type: number;
  data: Uint8Array;
}

/** The bytes of one file. */
export function writeGguf(metadata: Record<string, Value>, tensors: Tensor[]): Uint8Array {
  const sized = tensors.map(({ data, ...tensor }) => ({ ...tensor, bytes: data.byteLength }));
  const file = new Writer();
  file.raw(writeHeader(metadata, sized));
  for (const { data } of tensors) {
    file.raw(data);
    file.pad();
  }
  return file.bytes();
}

/** What comes before the data of the first tensor. */
export function writeHeader(
  metadata: Record<string, Value>,
  tensors: readonly (Omit<Tensor, 'data'> & { bytes: number })[],
): Uint8Array {
  const header = new Writer();
  header.raw(Buffer.from('GGUF'));
  header.u32(3);
  header.u64(tensors.length);
  header.u64(Object.keys(metadata).length);
  for (const [key, value] of Object.entries(metadata)) {
    header.text(key);
    header.value(value);
  }
  let offset = 0;
  for (const { name, shape, type, bytes } of tensors) {
    header.text(name);
    header.u32(shape.length);
    for (const size of shape) header.u64(size);
    header.u32(type);
    header.u64(offset);
    offset = align(offset + bytes);
  }
  header.pad();
  return header.bytes();
}

/** The next multiple of what tensors are aligned to. */
export function align(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

class Writer {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  raw(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.#length += bytes.byteLength;
  }

  u32(value: number): void {
    this.#number(4, (view) => view.setUint32(0, value, true));
  }

  u64(value: number): void {
    this.#number(8, (view) => view.setBigUint64(0, BigInt(value), true));
  }

  text(text: string): void {
    const bytes = Buffer.from(text);
    this.u64(bytes.byteLength);
    this.raw(bytes);
  }

  value(value: Value): void {
    if ('u32' in value) {
      this.u32(4);
      this.u32(value.u32);
    } else if ('f32' in value) {
      this.u32(6);
      this.#number(4, (view) => view.setFloat32(0, value.f32, true));
    } else if ('bool' in value) {
      this.u32(7);
      this.raw(Uint8Array.of(value.bool ? 1 : 0));
    } else if ('text' in value) {
      this.u32(8);
      this.text(value.text);
    } else if ('texts' in value) {
      this.#array(8, value.texts.length);
      for (const text of value.texts) this.text(text);
    } else {
      this.#array(5, value.i32s.length);
      for (const item of value.i32s) this.#number(4, (view) => view.setInt32(0, item, true));
    }
  }

  pad(): void {
    this.raw(new Uint8Array(align(this.#length) - this.#length));
  }

  bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.#parts));
  }

  #array(type: number, length: number): void {
    this.u32(9);
    this.u32(type);
    this.u64(length);
  }

  #number(bytes: number, write: (view: DataView) => void): void {
    const buffer = new Uint8Array(bytes);
    write(new DataView(buffer.buffer));
    this.raw(buffer);
  }
}
