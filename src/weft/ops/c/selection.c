// Top-k and determinants.

//@ places
int32_t *places = (int32_t *)(void *)scratch;
$other
int32_t $names;
long i, c, from, to;
for (i = 0; i < $outer; ++i) {
    for (c = 0; c < $inner; ++c) {
        from = i * $extent * $inner + c;
        to = i * $k * $inner + c;
        $search
        for (j = 0; j < $k; ++j)
            out0[to + j * $inner] = places[j];
    }
}

//@ insert
// Into the ordered best so far: equal elements stay in the order of the input.
held = 0;
for (j = 0; j < $extent; ++j) {
    if (held == $k && !$enters)
        continue;
    at = held < $k ? held++ : $k - 1;
    while (at > 0 && $rises) {
        places[at] = places[at - 1];
        --at;
    }
    places[at] = j;
}

//@ sort
// Merge sort of the places, from the bottom up: stable, and quick for any k.
for (j = 0; j < $extent; ++j)
    places[j] = j;
for (width = 1; width < $extent; width *= 2) {
    for (start = 0; start < $extent; start += 2 * width) {
        middle = start + width < $extent ? start + width : $extent;
        end = start + 2 * width < $extent ? start + 2 * width : $extent;
        left = start;
        right = middle;
        for (j = start; j < end; ++j) {
            if (left < middle && (right >= end || !$turns))
                other[j] = places[left++];
            else
                other[j] = places[right++];
        }
    }
    for (j = 0; j < $extent; ++j)
        places[j] = other[j];
}

//@ sink
// Puts a place into a heap at whose top it may not belong: the worst place is at the top.
at = 0;
while ((child = 2 * at + 1) < $size) {
    if (child + 1 < $size && $second)
        ++child;
    if (!$below)
        break;
    places[at] = places[child];
    at = child;
}
places[at] = $item;

//@ heap
// Of the best so far: most elements are compared with the worst of these only.
for (j = 0; j < $k; ++j) {
    at = j;
    while (at > 0 && $rises) {
        places[at] = places[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    places[at] = j;
}
for (; j < $extent; ++j) {
    if (!$enters)
        continue;
    $replace
}
for (j = $k - 1; j > 0; --j) {
    last = places[j];
    places[j] = places[0];
    $shrink
}

//@ determinant
// Gaussian elimination with partial pivots, in double precision.
double *a = (double *)(void *)scratch;
long i, j, k, row, best;
double held, top, found;
for (i = 0; i < $matrices; ++i) {
    for (k = 0; k < $n * $n; ++k)
        a[k] = (double)in0[i * $n * $n + k];
    found = 1.0;
    for (j = 0; j < $n; ++j) {
        best = j;
        top = 0.0;
        for (row = j; row < $n; ++row) {
            held = a[row * $n + j] < 0.0 ? -a[row * $n + j] : a[row * $n + j];
            if (held > top) {
                best = row;
                top = held;
            }
        }
        if (best != j) {
            for (k = 0; k < $n; ++k) {
                held = a[j * $n + k];
                a[j * $n + k] = a[best * $n + k];
                a[best * $n + k] = held;
            }
            found = -found;
        }
        found *= a[j * $n + j];
        for (row = j + 1; row < $n; ++row) {
            held = a[j * $n + j] != 0.0 ? a[row * $n + j] / a[j * $n + j] : 0.0;
            for (k = j; k < $n; ++k)
                a[row * $n + k] -= held * a[j * $n + k];
        }
    }
    out0[i] = ($type)found;
}
