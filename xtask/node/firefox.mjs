// How the scripts and the tests start Firefox.

/** Off by default in the ESR, or refused for an adapter in software. */
export const PREFERENCES = {
  'dom.webgpu.enabled': true,
  'dom.webgpu.workers.enabled': true,
  'gfx.webgpu.ignore-blocklist': true,
};
