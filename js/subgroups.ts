// Asks for a feature that the engine's GPU library does not know by name.

interface Adapter {
  readonly features: { has(name: string): boolean };
  requestDevice(descriptor?: { requiredFeatures?: Iterable<string> }): Promise<unknown>;
}

/** From here on, devices get the `subgroups` feature where their adapter has it. */
export function requestSubgroups(scope: object): void {
  const adapterClass = (scope as { GPUAdapter?: { prototype: Adapter } }).GPUAdapter;
  if (adapterClass === undefined) return;
  const { prototype } = adapterClass;
  const { requestDevice } = prototype;
  prototype.requestDevice = function (this: Adapter, descriptor = {}) {
    if (!this.features.has('subgroups')) return requestDevice.call(this, descriptor);
    const requiredFeatures = new Set([...(descriptor.requiredFeatures ?? []), 'subgroups']);
    return requestDevice.call(this, { ...descriptor, requiredFeatures });
  };
}
