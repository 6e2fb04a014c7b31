// The distributions' declarations, for the body of Generator (local/ops/random/random.h, chunked/api/random.h), which
// has the types Array, Arg, Size and Out.

// [0, 1): multiples of 2^-24 or 2^-53.
Array random(const Size& size = {}, DType dtype = DType::float64, const Out& out = {});
// [low, high), with `endpoint` [low, high]; [0, low) without `high`. Any integer dtype, or bool.
Array integers(const Arg& low, const std::optional<Arg>& high = {}, const Size& size = {}, DType dtype = DType::int64,
               bool endpoint = false);
// [low, high).
Array uniform(const Arg& low = 0.0, const Arg& high = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array standard_normal(const Size& size = {}, DType dtype = DType::float64, const Out& out = {});
Array normal(const Arg& loc = 0.0, const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
// By inversion, whatever `method` ("zig", "inv") says.
Array standard_exponential(const Size& size = {}, DType dtype = DType::float64, std::string_view method = "zig",
                           const Out& out = {});
Array exponential(const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array standard_gamma(const Arg& shape, const Size& size = {}, DType dtype = DType::float64, const Out& out = {});
Array gamma(const Arg& shape, const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array beta(const Arg& a, const Arg& b, const Size& size = {}, DType dtype = DType::float64);
Array chisquare(const Arg& df, const Size& size = {}, DType dtype = DType::float64);
Array f(const Arg& dfnum, const Arg& dfden, const Size& size = {}, DType dtype = DType::float64);
Array gumbel(const Arg& loc = 0.0, const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array laplace(const Arg& loc = 0.0, const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array logistic(const Arg& loc = 0.0, const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array lognormal(const Arg& mean = 0.0, const Arg& sigma = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array noncentral_chisquare(const Arg& df, const Arg& nonc, const Size& size = {}, DType dtype = DType::float64);
Array noncentral_f(const Arg& dfnum, const Arg& dfden, const Arg& nonc, const Size& size = {},
                   DType dtype = DType::float64);
Array pareto(const Arg& a, const Size& size = {}, DType dtype = DType::float64);  // Lomax: from 0
Array power(const Arg& a, const Size& size = {}, DType dtype = DType::float64);
Array rayleigh(const Arg& scale = 1.0, const Size& size = {}, DType dtype = DType::float64);
Array standard_cauchy(const Size& size = {}, DType dtype = DType::float64);
Array standard_t(const Arg& df, const Size& size = {}, DType dtype = DType::float64);
Array triangular(const Arg& left, const Arg& mode, const Arg& right, const Size& size = {},
                 DType dtype = DType::float64);
Array vonmises(const Arg& mu, const Arg& kappa, const Size& size = {}, DType dtype = DType::float64);  // [-pi, pi]
Array wald(const Arg& mean, const Arg& scale, const Size& size = {}, DType dtype = DType::float64);
Array weibull(const Arg& a, const Size& size = {}, DType dtype = DType::float64);

// Counts, int64. Beyond 2^53 they are rounded to a float64.
Array binomial(const Arg& n, const Arg& p, const Size& size = {});
Array geometric(const Arg& p, const Size& size = {});
// ngood and nbad are below 10^9.
Array hypergeometric(const Arg& ngood, const Arg& nbad, const Arg& nsample, const Size& size = {});
Array logseries(const Arg& p, const Size& size = {});
Array negative_binomial(const Arg& n, const Arg& p, const Size& size = {});
Array poisson(const Arg& lam = 1.0, const Size& size = {});
Array zipf(const Arg& a, const Size& size = {});
