/** Hands the user a value as a JSON file, with the time in its name. */
export function downloadJson(name: string, value: unknown): void {
  downloadText(name, 'json', 'application/json', JSON.stringify(value, null, 2));
}

/** Hands the user a text as a file, with the time in its name. */
export function downloadText(name: string, ending: string, type: string, text: string): void {
  const blob = new Blob([text], { type });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '-');
  link.download = `${name}-${time}.${ending}`;
  link.click();
  // The download has read the address by the next task in every browser; a minute is ample.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
