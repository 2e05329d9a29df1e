// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <memory>

namespace kedge {

/// Float64 matrices of one device, for what is nearly all products: written once, it runs wherever these do.
class Dense {
 public:
  /// A matrix that stays on the device; its values are undefined at first.
  class Cells {
   public:
    Cells(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols) {}
    virtual ~Cells() = default;
    Cells(const Cells&) = delete;
    Cells& operator=(const Cells&) = delete;
    [[nodiscard]] std::size_t rows() const { return rows_; }
    [[nodiscard]] std::size_t cols() const { return cols_; }

   private:
    std::size_t rows_, cols_;
  };
  using Owned = std::unique_ptr<Cells>;

  virtual ~Dense() = default;
  [[nodiscard]] virtual Owned make(std::size_t rows, std::size_t cols) = 0;
  virtual void upload(const Matrix64& from, Cells& to) = 0;
  /// The first rows, as many as `to` has.
  virtual void download(const Cells& from, Matrix64& to) = 0;
  /// to = scale a b + keep to
  virtual void multiply(double scale, const Cells& a, const Cells& b, double keep, Cells& to) = 0;
  /// to = scale a b^T
  virtual void multiply_transposed(double scale, const Cells& a, const Cells& b, Cells& to) = 0;
  /// to += scale from
  virtual void add(double scale, const Cells& from, Cells& to) = 0;
  /// The root of the sum of squares.
  [[nodiscard]] virtual double norm(const Cells& cells) = 0;
};

/// On the processor, by BLAS.
[[nodiscard]] std::unique_ptr<Dense> make_cpu_dense();

}  // namespace kedge
