// Figures as the lab writes them.

/** `3,974.8`. */
export function decimals(value: number, digits = 1): string {
  if (value === Infinity) return '∞';
  if (!Number.isFinite(value)) return 'n/a';
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  });
}

/** `3,974.8 ms`. */
export function ms(value: number, digits = 1): string {
  return Number.isFinite(value) ? `${decimals(value, digits)} ms` : decimals(value);
}

/** `733 ms` below a second, `4.66 s` from there on, minutes from 100 s. */
export function span(valueMs: number): string {
  if (!Number.isFinite(valueMs)) return decimals(valueMs);
  if (Math.abs(valueMs) < 999.5) return `${decimals(valueMs, valueMs % 1 === 0 ? 0 : 1)} ms`;
  const seconds = valueMs / 1000;
  if (seconds < 100) return `${decimals(seconds, 2)} s`;
  return `${decimals(seconds / 60, 1)} min`;
}

/** `12,345`. */
export function whole(value: number): string {
  return decimals(value, 0);
}

/** `0.15 %`. */
export function percent(share: number, digits = 1): string {
  return Number.isFinite(share) ? `${decimals(share * 100, digits)} %` : 'n/a';
}

/** `536,870,912 bytes (512 MiB)`. */
export function bytesExact(bytes: number): string {
  const short = bytesShort(bytes);
  return short.endsWith(' B') ? `${whole(bytes)} bytes` : `${whole(bytes)} bytes (${short})`;
}

/** `512 MiB`, with as many decimals as it takes for three figures, none for whole numbers. */
export function bytesShort(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  const digits = Number.isInteger(value) || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${decimals(value, digits)} ${units[at]}`;
}

/** `1.2 M`: counts too large to be read digit by digit. */
export function large(value: number): string {
  const units = ['', ' k', ' M', ' G', ' T', ' P'];
  let scaled = value;
  let at = 0;
  while (scaled >= 1000 && at < units.length - 1) {
    scaled /= 1000;
    at += 1;
  }
  return `${decimals(scaled, at === 0 || scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)}${units[at]}`;
}
