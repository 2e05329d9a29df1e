// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "map/fold.h"

#include <kedge/translate.h>

namespace kedge {

Translator::Translator(const Bundle& bundle, const std::string& from, const std::string& to) : from_(from), to_(to) {
  const std::shared_ptr<const RelativeMap> held = bundle.map(from);
  const RelativeMap& map = *held;
  const Attachment& target = bundle.space(to);
  if (map.similarity() != Similarity::wip && map.similarity() != Similarity::inner) {
    refuse(
        "the map of '{}' has the similarity {}, which cannot be inverted; translation needs a bundle with the "
        "similarity wip",
        from, to_string(map.similarity()));
  }
  if (!target.decoder) {
    refuse(
        "space '{}' has no decoder, so nothing can be translated into it; attach it again to a bundle with the "
        "similarity wip",
        to);
  }
  if (const RelativeMap* reverse = target.reverse(); reverse != nullptr && reverse->space() == from) {
    weight_ = reverse->weight();
    bias_ = reverse->bias();
    mean_ = reverse->mean();
    kernel_ = reverse->kernel();
    return;
  }
  const Work work;
  const EigenRows<double> decode = as_eigen(target.decoder->weight.view()).cast<double>();
  const EigenRows<double> encode = as_eigen(map.weight().view()).cast<double>();
  weight_ = matrix_of<float>(product(decode, encode));
  bias_.resize(weight_.rows());
  const Eigen::RowVectorXd start = as_eigen(std::span(map.bias())).cast<double>();
  const Eigen::RowVectorXd end = as_eigen(std::span(target.decoder->bias)).cast<double>();
  as_eigen(std::span(bias_)) = (product(start, decode.transpose()) + end).cast<float>();
  if (map.kernel()) {
    mean_ = map.mean();
    kernel_ = map.kernel();
    const EigenRows<double> coefficients = as_eigen(map.kernel()->coefficients.view()).cast<double>();
    kernel_->coefficients = matrix_of<float>(product(coefficients, decode.transpose()));
  }
  const bool curved = kernel_ && !as_eigen(kernel_->coefficients.view()).allFinite();
  if (curved || !as_eigen(weight_.view()).allFinite() || !as_eigen(std::span(bias_)).allFinite()) {
    refuse(
        "the values of '{}' and '{}' differ so much in scale that a translation does not fit in float32; rescale one "
        "space and attach it again",
        from, to);
  }
}

void Translator::apply(MatrixView<const float> x, MatrixView<float> y) const {
  if (x.cols != input_dim() || y.cols != output_dim() || x.rows != y.rows) {
    refuse("translating '{}' to '{}' takes rows of {} values to rows of {}, got {} x {} and {} x {}", from_, to_,
           input_dim(), output_dim(), x.rows, x.cols, y.rows, y.cols);
  }
  require_apart(x, y);
  if (!kernel_) return apply_affine(weight_.view(), bias_, x, y);
  const Work work;
  apply_kernel(kernel_function(*this), x, y);
}

Matrix Translator::apply(MatrixView<const float> x) const {
  Matrix y(x.rows, output_dim());
  apply(x, y.view());
  return y;
}

void translate(const Translator& translator, const Space& input, const std::string& output_path,
               const StreamOptions& options, const Progress& progress) {
  const Work work;
  require_device(options.device);
  const MakeRowWorker make_worker =
      translator.kernel()
          ? kernel_workers(kernel_function(translator), options.device, options.precision)
          : affine_workers(translator.weight().view(), translator.bias(), options.device, options.precision);
  stream({translator.from(), "translating", translator.input_dim(), translator.output_dim(), make_worker}, input,
         output_path, options, progress);
}

}  // namespace kedge
