// How the scripts start Chromium.

/** Nothing that asks the network, and no sandbox, which containers do not have. */
export const FLAGS = [
  '--no-sandbox',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** With a GPU in software: the machine needs none. */
export const GPU_FLAGS = [...FLAGS, '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];
