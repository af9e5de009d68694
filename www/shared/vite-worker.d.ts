// Vite's address of a worker that is bundled on its own.
declare module '*?worker&url' {
  const url: string;
  export default url;
}
