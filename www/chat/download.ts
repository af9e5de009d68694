/** Hands the user a value as a JSON file, with the time in its name. */
export function downloadJson(name: string, value: unknown): void {
  const blob = new Blob([JSON.stringify(value, null, 2)], { type: 'application/json' });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = `${name}-${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}.json`;
  link.click();
  // The download has read the address by the next task in every browser; a minute is ample.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
