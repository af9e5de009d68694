export const FLAGS: string[];
export const GPU_FLAGS: string[];
