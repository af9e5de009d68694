// sample_group_tree.wgsl: the lanes of a workgroup work together, through its memory
//
// Every lane gets a result, and every lane has to call. Results are uniform in the language's
// sense too, so that loops may depend on them.
//
// Needs     WG_SIZE, a power of two; common/sample.wgsl

var<workgroup> tree: array<vec3<u32>, WG_SIZE>;
var<workgroup> same: u32;

fn slice_of(group: u32, lane: u32) -> u32 {
    return group;
}

fn leads(lane: u32) -> bool {
    return lane == 0u;
}

// Lane 0's value.
fn group_same(lane: u32, value: u32) -> u32 {
    workgroupBarrier();
    if lane == 0u {
        same = value;
    }
    return workgroupUniformLoad(&same);
}

// The largest x; among equal ones the smallest y.
fn group_best(lane: u32, best: vec2<u32>) -> vec2<u32> {
    workgroupBarrier();
    tree[lane] = vec3<u32>(best, 0u);
    workgroupBarrier();
    for (var half = WG_SIZE / 2u; half > 0u; half /= 2u) {
        if lane < half {
            let other = tree[lane + half].xy;
            let mine = tree[lane].xy;
            if other.x > mine.x || (other.x == mine.x && other.y < mine.y) {
                tree[lane] = vec3<u32>(other, 0u);
            }
        }
        workgroupBarrier();
    }
    return workgroupUniformLoad(&tree[0]).xy;
}

fn group_or(lane: u32, bits: u32) -> u32 {
    workgroupBarrier();
    tree[lane] = vec3<u32>(bits, 0u, 0u);
    workgroupBarrier();
    for (var half = WG_SIZE / 2u; half > 0u; half /= 2u) {
        if lane < half {
            tree[lane] |= tree[lane + half];
        }
        workgroupBarrier();
    }
    return workgroupUniformLoad(&tree[0]).x;
}

// Sums of a number and of a wide number.
fn group_sum(lane: u32, sum: vec3<u32>) -> vec3<u32> {
    workgroupBarrier();
    tree[lane] = sum;
    workgroupBarrier();
    for (var half = WG_SIZE / 2u; half > 0u; half /= 2u) {
        if lane < half {
            tree[lane] = both_add(tree[lane], tree[lane + half]);
        }
        workgroupBarrier();
    }
    return workgroupUniformLoad(&tree[0]);
}

// Sums of all lanes before this one (Hillis & Steele 1986).
fn group_before(lane: u32, own: vec3<u32>) -> vec3<u32> {
    workgroupBarrier();
    tree[lane] = own;
    workgroupBarrier();
    for (var reach = 1u; reach < WG_SIZE; reach *= 2u) {
        var sum = tree[lane];
        if lane >= reach {
            sum = both_add(sum, tree[lane - reach]);
        }
        workgroupBarrier();
        tree[lane] = sum;
        workgroupBarrier();
    }
    if lane == 0u {
        return vec3<u32>();
    }
    return tree[lane - 1u];
}

// Makes what a lane has written to storage visible to the others.
fn group_wrote() {
    storageBarrier();
    workgroupBarrier();
}
