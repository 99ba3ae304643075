// Bodies of pooling of regions.

//@ bins
// Bins of a region along one axis; {low} and {high} are columns of rois.
start$axis = (double)in1[r * 4 + $low] * $scale - $shift;
length = (double)in1[r * 4 + $high] * $scale - $shift - start$axis;
${least}bin$axis = length / $bins;
points$axis = $ratio;
if (points$axis == 0) {
    points$axis = length > 0.0 && bin$axis < 1e6 ? (long)bin$axis : 0;
    if (bin$axis > 0.0 && (double)points$axis < bin$axis)
        ++points$axis;
}

//@ point
// Where a point lies along one axis: two neighbours and the weight of the second.
at = start$axis + (double)p$axis * bin$axis + ((double)s$axis + 0.5) * bin$axis / (double)points$axis;
if (!(at >= -1.0 && at <= $extent.0))
    held = 0;
else {
    at = at > 0.0 ? at : 0.0;
    low$axis = (long)at;
    if (low$axis >= $last) {
        low$axis = $last;
        at = $last.0;
    }
    high$axis = low$axis < $last ? low$axis + 1 : $last;
    weight$axis = at - (double)low$axis;
}

//@ average
sum += $first + $second + $third + $fourth;

//@ mean
if (pointsy * pointsx > 1)
    sum /= (double)(pointsy * pointsx);

//@ largest
corner[0] = $first;
corner[1] = $second;
corner[2] = $third;
corner[3] = $fourth;
for (k = 0; k < 4; ++k) {
    if (empty || corner[k] > sum)
        sum = corner[k];
    empty = 0;
}

//@ outside
// A point outside counts 0.
if (!held) {
    if (empty || sum < 0.0)
        sum = 0.0;
    empty = 0;
}

//@ corner
at = (double)in1[r * 5 + $column] * $scale;
at = at > -1e6 ? (at < 1e6 ? at : 1e6) : -1e6;
$name = at < 0.0 ? -(long)(0.5 - at) : (long)(at + 0.5);

//@ range
from$axis = low$axis + p$axis * size$axis / $bins;
end$axis = low$axis + ((p$axis + 1) * size$axis + $bins - 1) / $bins;
from$axis = from$axis < 0 ? 0 : from$axis;
end$axis = end$axis > $extent ? $extent : end$axis;

//@ scan
found = 0;
for (y = fromy; y < endy; ++y) {
    for (x = fromx; x < endx; ++x) {
        if (!found || in0[base + y * $width + x] > out0[to])
            out0[to] = in0[base + y * $width + x];
        found = 1;
    }
}
if (!found)
    out0[to] = 0;
++to;
