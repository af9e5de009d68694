export const PREFERENCES: Record<string, boolean>;
