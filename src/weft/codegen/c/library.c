// Functions of <math.h> that C89 lacks.

//@ exp2
/* 2 to the power of x. */
static double weft_exp2(double x)
{
    return pow(2.0, x);
}

//@ log2
// As power of 2 and a fraction around 1: powers of 2 stay exact, and what is near 1 small.
/* The logarithm of x to base 2. */
static double weft_log2(double x)
{
    int power = 0;
    double fraction = x;
    if (x > 0.0 && x - x == 0.0) {
        fraction = frexp(x, &power);
        if (fraction < 0.70710678118654752440) {
            fraction *= 2.0;
            --power;
        }
    }
    return log(fraction) * 1.44269504088896340736 + (double)power;
}

//@ log1p
/* log(1 + x), accurate near 0. */
static double weft_log1p(double x)
{
    const double sum = 1.0 + x;
    if (sum == 1.0) {
        return x;
    }
    return sum - 1.0 == x || sum - sum != 0.0 ? log(sum) : log(sum) * (x / (sum - 1.0));
}

//@ expm1
/* e to the power of x, less 1, accurate near 0. */
static double weft_expm1(double x)
{
    const double power = exp(x);
    if (power == 1.0) {
        return x;
    }
    return x < -40.0 || power - power != 0.0 ? power - 1.0 : (power - 1.0) * (x / log(power));
}

//@ asinh
/* The inverse hyperbolic sine. */
static double weft_asinh(double x)
{
    const double size = fabs(x);
    double result;
    if (size > 1.0e8) {
        result = log(size) + 0.69314718055994530942;
    } else {
        result = weft_log1p(size + size * size / (1.0 + sqrt(1.0 + size * size)));
    }
    return x < 0.0 ? -result : (x == 0.0 ? x : result);
}

//@ acosh
/* The inverse hyperbolic cosine. */
static double weft_acosh(double x)
{
    const double above = x - 1.0;
    if (x < 1.0) {
        return sqrt(above); /* not a number */
    }
    if (x > 1.0e8) {
        return log(x) + 0.69314718055994530942;
    }
    return weft_log1p(above + sqrt(2.0 * above + above * above));
}

//@ atanh
/* The inverse hyperbolic tangent. */
static double weft_atanh(double x)
{
    const double size = fabs(x);
    const double result = 0.5 * weft_log1p(2.0 * size / (1.0 - size));
    return x < 0.0 ? -result : (x == 0.0 ? x : result);
}

//@ erf
/* The error function: a series of positive terms, and the tail's continued fraction. */
static double weft_erf(double x)
{
    const double size = fabs(x);
    double sum;
    double term;
    int i;
    if (!(size < 6.0)) {
        return x != x ? x : (x > 0.0 ? 1.0 : -1.0);
    }
    if (size < 2.5) {
        sum = size;
        term = size;
        for (i = 1; i < 60; ++i) {
            term *= 2.0 * size * size / (double)(2 * i + 1);
            sum += term;
        }
        sum *= 1.1283791670955125739 * exp(-size * size);
    } else {
        term = size;
        for (i = 60; i > 0; --i) {
            term = size + (double)i * 0.5 / term;
        }
        sum = 1.0 - 0.56418958354775628695 * exp(-size * size) / term;
    }
    return x < 0.0 ? -sum : (x == 0.0 ? x : sum);
}

//@ erfc
/* 1 less the error function: by the tail's continued fraction where the difference is small. */
static double weft_erfc(double x)
{
    double term = x;
    int i;
    if (x < 1.0) {
        return 1.0 - weft_erf(x);
    }
    for (i = x < 2.0 ? 250 : 60; i > 0; --i) {
        term = x + (double)i * 0.5 / term;
    }
    return 0.56418958354775628695 * exp(-x * x) / term;
}

//@ rint
/* The nearest whole number, ties to even. */
static double weft_rint(double x)
{
    const double whole = 4503599627370496.0;
    const double size = fabs(x);
    double down;
    if (!(size < whole)) {
        return x;
    }
    down = floor(size);
    if (size - down > 0.5 || (size - down == 0.5 && fmod(down, 2.0) == 1.0)) {
        down += 1.0;
    }
    return x < 0.0 || (x == 0.0 && 1.0 / x < 0.0) ? -down : down;
}

//@ trunc
/* The whole number next to it towards zero. */
static double weft_trunc(double x)
{
    return x < 0.0 ? ceil(x) : floor(x);
}
