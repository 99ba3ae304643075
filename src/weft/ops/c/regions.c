// Pooling of regions of interest: $n, $c, $h and $w are the sizes of the images.

//@ align
double starty, startx, biny, binx, length, at, sum, weighty = 0.0, weightx = 0.0;
double corner[4];
long r, plane, py, px, sy, sx, pointsy, pointsx, image, base, to = 0;
long lowy = 0, lowx = 0, highy = 0, highx = 0;
int held, empty, k;
for (r = 0; r < $regions; ++r) {
    $bins
    image = (long)in2[r];
    image = image < 0 || image >= $n ? 0 : image;
    for (plane = 0; plane < $c; ++plane) {
        base = (image * $c + plane) * $h * $w;
        for (py = 0; py < $height; ++py) {
            for (px = 0; px < $width; ++px) {
                sum = 0.0;
                empty = 1;
                for (sy = 0; sy < pointsy; ++sy) {
                    for (sx = 0; sx < pointsx; ++sx) {
                        held = 1;
                        $points
                        corner[0] = (1.0 - weighty) * (1.0 - weightx) * (double)in0[base + lowy * $w + lowx];
                        corner[1] = (1.0 - weighty) * weightx * (double)in0[base + lowy * $w + highx];
                        corner[2] = weighty * (1.0 - weightx) * (double)in0[base + highy * $w + lowx];
                        corner[3] = weighty * weightx * (double)in0[base + highy * $w + highx];
                        if ($average) {
                            sum += held ? corner[0] + corner[1] + corner[2] + corner[3] : 0.0;
                            continue;
                        }
                        for (k = 0; k < 4; ++k) { /* a point outside counts 0 */
                            if (empty || (held ? corner[k] : 0.0) > sum)
                                sum = held ? corner[k] : 0.0;
                            empty = 0;
                        }
                    }
                }
                if ($average && pointsy * pointsx > 1)
                    sum /= (double)(pointsy * pointsx);
                out0[to++] = ($type)sum;
            }
        }
    }
}

//@ bins
// Of a region along one axis; $low and $high are columns of rois.
start$axis = (double)in1[r * 4 + $low] * $scale - $shift;
length = (double)in1[r * 4 + $high] * $scale - $shift - start$axis;
length = !$half && length < 1.0 ? 1.0 : length;
bin$axis = length / $bins.0;
points$axis = $ratio;
if (points$axis == 0) {
    points$axis = length > 0.0 && bin$axis < 1e6 ? (long)bin$axis : 0;
    if (bin$axis > 0.0 && (double)points$axis < bin$axis)
        ++points$axis;
}

//@ point
// Where a point lies along one axis: two neighbours and the weight of the second.
at = start$axis + (double)p$axis * bin$axis;
at += ((double)s$axis + 0.5) * bin$axis / (double)points$axis;
if (!(at >= -1.0 && at <= $extent.0))
    held = 0;
else {
    at = at > 0.0 ? at : 0.0;
    low$axis = (long)at;
    if (low$axis >= $extent - 1) {
        low$axis = $extent - 1;
        at = $extent.0 - 1.0;
    }
    high$axis = low$axis < $extent - 1 ? low$axis + 1 : $extent - 1;
    weight$axis = at - (double)low$axis;
}

//@ max
double at;
long r, plane, py, px, y, x, image, base, to = 0;
long lowy, lowx, sizey, sizex, fromy, fromx, endy, endx;
int found;
for (r = 0; r < $regions; ++r) {
    at = (double)in1[r * 5];
    image = at >= 0.0 && at < 1e6 ? (long)at : 0;
    image = image >= $n ? 0 : image;
    $corners
    sizey = sizey - lowy + 1;
    sizex = sizex - lowx + 1;
    sizey = sizey < 1 ? 1 : sizey;
    sizex = sizex < 1 ? 1 : sizex;
    for (plane = 0; plane < $c; ++plane) {
        base = (image * $c + plane) * $h * $w;
        for (py = 0; py < $height; ++py) {
            for (px = 0; px < $width; ++px) {
                $ranges
                found = 0;
                for (y = fromy; y < endy; ++y) {
                    for (x = fromx; x < endx; ++x) {
                        if (!found || in0[base + y * $w + x] > out0[to])
                            out0[to] = in0[base + y * $w + x];
                        found = 1;
                    }
                }
                if (!found)
                    out0[to] = 0;
                ++to;
            }
        }
    }
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
