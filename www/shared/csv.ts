// Tables as CSV, RFC 4180.

export type Cell = string | number | boolean | null | undefined;

export interface Table {
  columns: readonly string[];
  rows: readonly (readonly Cell[])[];
}

export function toCsv({ columns, rows }: Table): string {
  return [columns, ...rows].map((row) => row.map(cellText).join(',')).join('\r\n') + '\r\n';
}

/** What did not happen is empty; text that a spreadsheet would run as a formula is quoted off. */
function cellText(cell: Cell): string {
  if (cell === null || cell === undefined) return '';
  if (typeof cell === 'number') return Number.isFinite(cell) ? String(cell) : '';
  const text = String(cell);
  const inert = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
