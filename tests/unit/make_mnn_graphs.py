"""Writes small ``.mnn`` graphs and the weights in them. Run in a process of its own: MNN prints and may crash.

python make_mnn_graphs.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from MNN import expr

FOLDER = Path(sys.argv[1])


def save(name, *outputs):
    for output, variable in outputs:
        variable.name = output
    expr.save([variable for _, variable in outputs], str(FOLDER / f"{name}.mnn"))


def takes(name, shape, layout=expr.NCHW, dtype=expr.float):
    variable = expr.placeholder(shape, layout, dtype)
    variable.name = name
    return variable


def const(array):
    return expr.const(array, list(array.shape), expr.NCHW)


random = np.random.default_rng(5)
kernel = random.standard_normal((5, 3, 3, 3)).astype(np.float32)  # 5 channels do not fill blocks of 4
bias = random.standard_normal(5).astype(np.float32)
matrix = random.standard_normal((3, 4)).astype(np.float32)
np.savez(FOLDER / "weights.npz", kernel=kernel, bias=bias, matrix=matrix)


def conv(variable):
    blocks = expr.convert(variable, expr.NC4HW4)
    return expr.conv2d(blocks, const(kernel), const(bias), [1, 1], [0, 0], [1, 1], 1, expr.Padding_Mode.VALID)


save("nchw_to_blocks", ("y", conv(takes("x", [2, 3, 7, 6]))))
save("blocks_to_blocks", ("y", conv(takes("x", [2, 3, 7, 6], expr.NC4HW4))))
made = conv(takes("x", [2, 7, 6, 3], expr.NHWC))
save("nhwc_to_both", ("nchw", expr.convert(made, expr.NCHW)), ("nhwc", expr.convert(made, expr.NHWC)))

ints = takes("ints", [3, 4], dtype=expr.int)
save(
    "mixed",
    ("product", expr.matmul(takes("floats", [2, 3]), expr.cast(ints, expr.float))),
    ("sums", expr.reduce_sum(ints, [0], False)),
    ("halves", expr.cast(takes("bytes", [4], dtype=expr.uint8), expr.float) * const(np.array([0.5], np.float32))),
)
save("linear", ("y", expr.matmul(takes("x", [2, 3]), const(matrix))))
changed = matrix.copy()
changed[1, 2] += 0.5
save("linear_changed", ("y", expr.matmul(takes("x", [2, 3]), const(changed))))
save("root", ("y", expr.sqrt(takes("x", [4]))))
save("open", ("y", expr.relu(takes("x", [-1, 3]))))
save("to_3x4", ("y", expr.reshape(takes("x", [-1, 6]), [3, 4])))
save("by_content", ("y", expr.tile(takes("x", [2, 3]), takes("times", [2], dtype=expr.int))))
save("signed_bytes", ("y", expr.cast(takes("x", [3], dtype=expr.int8), expr.float)))
save("above_two", ("where", expr.where(expr.greater(takes("x", [2, 3]), expr.scalar(2.0)))))
