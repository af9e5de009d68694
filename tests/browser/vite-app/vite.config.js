// All that the package needs of Vite: the dependency optimizer would lose the worker's address,
// and a worker that imports modules has to stay one.
export default {
  optimizeDeps: { exclude: ['tokenbrook'] },
  worker: { format: 'es' },
};
