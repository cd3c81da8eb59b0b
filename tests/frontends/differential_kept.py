"""What differs from onnxruntime, or from it and ONNX's reference, and why it stays so: docs/onnx.md has it as a table.

python -m tests.frontends.differential_kept     # prints the table
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


@dataclass(frozen=True)
class Kept:
    """Trials that differ in one way: of some operators (`Clip`, or `Clip-11` in one opset) with some changes, both patterns as for file
    names, and with `case` of that case only. `said` is a part of the difference's text; `kind` may be two kinds; `make test` runs
    `example`."""

    kind: str
    operators: str
    change: str
    example: str
    reason: str
    said: str = ""
    case: str = "*"

    def covers(self, kind: str, operator: str, opset: int, case: str, change: str, why: str) -> bool:
        names = (operator, f"{operator}-{opset}")
        return (
            kind in self.kind.split()
            and fnmatchcase(case, self.case)
            and self.said in why
            and any(fnmatchcase(name, o) for o in self.operators.split() for name in names)
            and any(fnmatchcase(change, c) for c in self.change.split(" | "))
        )


KEPT: tuple[Kept, ...] = (
    Kept(
        'other', 'MaxPool GlobalMaxPool MaxRoiPool ScatterND', 'X with nan | data with nan',
        'MaxPool-1 maxpool_2d_precomputed_strides: X with nan',
        "NaN is the largest, as in Max and ReduceMax; onnxruntime ignores it",
    ),
    Kept(
        'wrong', 'MaxPool', 'X with nan',
        'MaxPool-1 maxpool_2d_uint8: X with nan',
        'NaN is the largest, as in Max and ReduceMax; where strides and dilations are 1 the reference treats NaN as padding',
    ),
    Kept(
        'other', 'Hardmax ai.onnx.ml:LinearClassifier', 'input with nan | X with inf',
        'Hardmax-13 hardmax_axis_0: input with nan',
        'NaN is the largest, as in ArgMax; onnxruntime gives only zeros, or ignores it',
    ),
    Kept(
        'wrong', 'Hardmax', 'input with nan',
        'Hardmax-1 hardmax_axis_0: input with nan',
        'NaN is the largest of a row, as the opset defines rows; the reference uses the rows of later opsets',
    ),
    Kept(
        'other', 'GRU LSTM RNN', '* with nan | * with inf',
        'GRU-14 gru_with_initial_bias: X with nan',
        "sigmoid and tanh of NaN are NaN; in onnxruntime they are not",
    ),
    Kept(
        'other', 'Clip', 'min with nan | max with nan',
        'Clip-13 clip_example: max with nan',
        'a NaN bound makes the result NaN, as in Min and Max; onnxruntime ignores it',
    ),
    Kept(
        'other', 'DeformConv', 'X with nan | X with inf | offset with nan',
        'DeformConv-22 deform_conv_with_mask_bias: X with nan',
        'samples of NaN elements, or at positions that are NaN, are NaN, and no others are; onnxruntime moves such positions',
    ),
    Kept(
        'other', 'GridSample', 'grid with *',
        'GridSample-16 gridsample_volumetric_nearest_align_corners_0: grid with largest',
        'a position far outside is outside, and a sample at NaN is NaN; onnxruntime casts positions to integers, which is undefined in C',
    ),
    Kept(
        'other', 'InstanceNormalization', 'scale with inf',
        'InstanceNormalization-22 instancenorm_epsilon: scale with inf',
        'onnxruntime folds the statistics into one factor and one summand, and adds infinities of opposite signs',
    ),
    Kept(
        'other wrong', 'BatchNormalization', 'scale with inf | scale with largest | scale with lowest',
        'BatchNormalization-9 batchnorm_example: scale with inf',
        "the same, and the reference of opsets before 14 refuses or runs in training mode",
    ),
    Kept(
        'other wrong', 'BatchNormalization', 'X with largest | X with lowest | *mean with largest | *mean with lowest',
        'BatchNormalization-14 batchnorm_example: X with largest',
        "the standard's formula divides by the deviation first, which overflows; others multiply by scale first, which is less than 1 here",
        'inf',
    ),
    Kept(
        'wrong', 'GroupNormalization', 'X with largest | X with lowest',
        'GroupNormalization-21 group_normalization_example: X with largest',
        "the variance is the mean of squared deviations, which is infinite; ONNX's body of the operator subtracts infinity from infinity",
    ),
    Kept(
        'wrong', 'LinearAttention', 'value with largest | value with lowest',
        'LinearAttention-27 linear_attention_linear: value with largest',
        'a query is multiplied by its key first, then by the value; others add infinities of opposite signs from the state',
    ),
    Kept(
        'other', 'DynamicQuantizeLinear', 'x without elements along *',
        'DynamicQuantizeLinear-11 dynamicquantizelinear: x without elements along 0',
        "the scale of an empty tensor is 0, as in ONNX's body of the operator",
    ),
    Kept(
        'wrong', 'DynamicQuantizeLinear', 'x with nan | x with inf',
        'DynamicQuantizeLinear-11 dynamicquantizelinear: x with nan',
        "ONNX's body of the operator takes the largest and smallest element, one of which is NaN or infinite",
    ),
    Kept(
        'wrong', 'Celu', 'alpha=0.0 | alpha=inf',
        'Celu-12 celu: alpha=0.0',
        "alpha counts below zero only, and alpha 0 gives the limit 0; others compute 0 times infinity, which is NaN, above zero too",
    ),
    Kept(
        'wrong', 'Attention', 'softcap=-1.0',
        'Attention-23 attention_4d: softcap=-1.0',
        "ONNX's body of the operator caps scores wherever softcap is not 0",
    ),
    Kept(
        'wrong', 'Cast CastLike', 'to=2 | T2 is *',
        'CastLike-19 castlike_FLOAT_to_FLOAT16: T2 is uint8',
        "ONNX does not define casts of floats out of an integer's range; here they give the nearest bound, and 0 for NaN, on every machine",
    ),
    Kept(
        'wrong', 'LpPool', 'auto_pad=*',
        "LpPool-22 lppool_2d_dilations: auto_pad=b'SAME_LOWER'",
        "SAME counts a dilated window by its extent, as in the standard's formula; both others ignore dilations",
    ),
    Kept(
        'wrong', 'DFT', 'input with inf | input with nan',
        'DFT-17 dft_opset19: input with inf',
        'computed as sums of products; others use another algorithm, in which infinity reaches more elements',
    ),
    Kept(
        'other', 'Resize', 'X with inf',
        'Resize-19 resize_upsample_scales_linear_align_corners: X with inf',
        '0 times infinity: a neighbour of weight 0 is multiplied as all others are',
    ),
    Kept(
        'other', 'RoiAlign', 'spatial_scale=inf',
        'RoiAlign-16 roialign_aligned_false: spatial_scale=inf',
        'infinite boxes lie outside the image, and give 0',
    ),
    Kept(
        'other', 'Gather', 'T is string',
        'Gather-13 gather_0: T is string',
        'onnxruntime copies the first string of each slice only',
    ),
    Kept(
        'refused', 'Attention', 'T1 is * | T2 is *',
        'Attention-23 attention_4d: T1 is double',
        "values of another dtype than queries, which ONNX's body of the operator multiplies",
        'they must be equal',
    ),
    Kept(
        'refused', 'Cast', 'saturate absent',
        'Cast-24 cast_e8m0_FLOAT_to_FLOAT8E8M0: saturate absent',
        'casts to float8e8m0 that round up or down',
        'rounding up or down',
    ),
    Kept(
        'refused', 'Col2Im', 'T is bool',
        'Col2Im-18 col2im: T is bool',
        'sums of booleans',
        'must be one of',
    ),
    Kept(
        'refused', 'QuantizeLinear DequantizeLinear', 'T2 is float8e8m0',
        'DequantizeLinear-24 dequantizelinear: T2 is float8e8m0',
        'scales of float8e8m0, powers of two',
        'must be one of',
    ),
    Kept(
        'refused', 'QLinearMatMul', 'T? is float8*',
        'QLinearMatMul-21 qlinearmatmul_2D_uint8_float32: T2 is float8e5m2',
        'products of 8-bit floats',
        'must be one of',
    ),
    Kept(
        'wrong', 'RNN', 'R with *',
        'RNN-14 simple_rnn_batchwise: R with nan',
        'one step without an initial state has no product with R; others multiply R by zeros',
        case='simple_rnn_batchwise',
    ),
    Kept(
        'refused', 'RNN GRU LSTM', 'clip=-1.0',
        'RNN-14 simple_rnn_with_initial_bias: clip=-1.0',
        'clipping to an empty range',
        'below 0',
    ),
    Kept(
        'refused', 'Pad', 'axes[[]0]=-1',
        'Pad-25 constant_pad_axes: axes[0]=-1',
        'one axis named twice',
        'repeated axis',
    ),
    Kept(
        'refused', 'Constant', '*',
        'Constant-12 constant: value_float=0.5',
        'two values for one constant',
        'needs exactly one attribute',
    ),
    Kept(
        "wrong", "Elu", "alpha=inf",
        "Elu-1 elu_example: alpha=inf",
        "alpha counts below zero only; others compute 0 times infinity above zero too",
    ),
    Kept(
        "refused", "GridSample", "T1 is *int* | T1 is bool | T1 is string",
        "GridSample-16 gridsample: T1 is uint16",
        "interpolation needs floats; nearest mode takes any dtype",
        "must be one of",
    ),
    Kept(
        "refused", "ReduceLogSumExp ReduceLogSum ReduceL2", "T is *int*",
        "ReduceLogSumExp-18 reduce_log_sum_exp_do_not_keepdims_example: T is int32",
        "roots and logarithms of integers",
        "must be one of",
    ),
    Kept(
        "wrong", "ai.onnx.ml:FeatureVectorizer", "inputdimensions=*",
        "ai.onnx.ml:FeatureVectorizer-1 vectors_of_features: inputdimensions=[-9223372036854775808, 1]",
        "the width of an input is its own, whatever the attribute says",
    ),
    Kept(
        "refused", "ai.onnx.ml:Imputer", "T is int*",
        "ai.onnx.ml:Imputer-1 imputed: T is int64",
        "the attribute with the imputed values is for another dtype",
    ),
    Kept(
        "refused", "ai.onnx.ml:LabelEncoder ai.onnx.ml:OneHotEncoder TfIdfVectorizer", "T1 is * | T is *",
        "ai.onnx.ml:LabelEncoder-4 ai_onnx_ml_label_encoder_string_int: T1 is int32",
        "the attribute with the keys is for another dtype",
    ),
    Kept(
        "wrong", "AveragePool", "kernel_shape=* | pads=*",
        "AveragePool-22 averagepool_2d_precomputed_pads: kernel_shape=[2, 5]",
        "a window that lies in the padding; the reference divides 0 by 0, and onnxruntime refuses it",
    ),
    Kept(
        "wrong", "AveragePool-1", "*",
        "AveragePool-1 averagepool_2d_precomputed_pads: as it is",
        "padding does not count, as is the default in later opsets; onnxruntime refuses the opset, the reference counts padding",
    ),
    Kept(
        "wrong", "CenterCropPad", "axes=[[]]",
        "CenterCropPad-18 center_crop_pad_crop: axes=[]",
        "an empty list of axes counts as absent, and there is a size for each of the three axes",
    ),
    Kept(
        "wrong", "AffineGrid RMSNormalization ReduceSumSquare ai.onnx.ml:*Regressor", "T1 is * | T is *",
        "AffineGrid-20 affine_grid_2d: T1 is bfloat16",
        "the result has the dtype that ONNX declares; the reference gives another",
        "dtypes",
    ),
    Kept(
        "wrong", "Cast", "input with inf | input with lowest | saturate=0",
        "Cast-19 cast_e8m0_FLOAT_to_FLOAT8E8M0: input with inf",
        "float8e8m0 has NaN and no infinity: with `saturate`, values out of range become the nearest bound",
    ),
    Kept(
        'wrong', 'GRU LSTM RNN', 'clip=*',
        'GRU-1 gru_defaults: clip=1.0',
        'onnxruntime refuses the first opsets, and the reference ignores clip',
    ),
    Kept(
        'wrong', 'DepthToSpace', "mode=b''",
        "DepthToSpace-13 depthtospace_example: mode=b''",
        'an empty string counts as absent, and the default is DCR; others take any string but DCR as CRD',
    ),
    Kept(
        'wrong', 'DequantizeLinear', 'T1 is float4e2m1',
        'DequantizeLinear-24 dequantizelinear: T1 is float4e2m1',
        'a 4-bit zero point is subtracted as any other is; the reference ignores it',
    ),
    Kept(
        'other', 'MaxUnpool', 'as it is | kernel_shape=* | strides=* | output_shape* | X with *',
        'MaxUnpool-11 maxunpool_export_with_output_shape: as it is',
        "indices are positions in the output without output_shape, as in ONNX's suite; in onnxruntime, in output_shape",
    ),
    Kept(
        'other', 'Squeeze', 'axes=[[]] | axes without elements*',
        'Squeeze-13 squeeze: axes without elements along 0',
        "an empty vector is present, and removes no axis, as in ONNX's shape inference; onnxruntime removes all",
        'shapes',
    ),
    Kept(
        'other', 'TopK', 'sorted=0',
        'TopK-11 top_k_same_values: sorted=0',
        'ONNX does not define the order',
        'output',
    ),
    Kept(
        'other', 'Unique', 'X with nan',
        'Unique-28 unique_sorted_without_axis: X with nan',
        'NaN equals nothing, as in NumPy; onnxruntime treats elements as equal if neither is less',
        'shapes',
    ),
    Kept(
        'refused', 'LpPool', 'p=-*',
        'LpPool-11 lppool_1d_default: p=-1',
        'a norm of a negative order',
        'must be positive',
    ),
    Kept(
        'wrong', 'LeakyRelu', 'alpha=inf',
        'LeakyRelu-1 leakyrelu: alpha=inf',
        'alpha counts below zero only; others compute 0 times infinity above zero too',
    ),
    Kept(
        'other', 'ai.onnx.ml:TreeEnsembleClassifier', 'classlabels_int64s=* | class_weights=* | class_nodeids=*',
        'ai.onnx.ml:TreeEnsembleClassifier-1 one_tree_of_classes: classlabels_int64s=[-1, 1]',
        'onnxruntime labels rows of two classes 0 and 1 if both classes have weights',
        'output 0',
    ),
    Kept(
        'refused', 'IsInf IsNaN', 'T1 is float8*',
        'IsInf-20 isinf: T1 is float8e5m2',
        '8-bit floats can only be stored, moved and converted',
        'must be one of',
    ),
    Kept(
        'other', 'Resize', "nearest_mode=b''",
        "Resize-18 resize_upsample_scales_nearest: nearest_mode=b''",
        'an empty string counts as absent, and the default is round_prefer_floor',
    ),
    Kept(
        'wrong', 'RoiAlign', "mode=b'' | coordinate_transformation_mode=b''",
        "RoiAlign-10 roialign_mode_max: mode=b''",
        'an empty string counts as absent, and the defaults are avg and half_pixel; others take it as max and output_half_pixel',
    ),
    Kept(
        'refused', 'ai.onnx.ml:TreeEnsemble', 'nodes_*leafs=*',
        'ai.onnx.ml:TreeEnsemble-5 ai_onnx_ml_tree_ensemble_set_membership: nodes_falseleafs=[-9223372036854775808, 0, 1]',
        'a leaf that the model does not have',
        'is not one of',
    ),
    Kept(
        'wrong', 'STFT', 'signal with inf | window with inf | window with largest | window with lowest',
        'STFT-17 stft_with_window: signal with inf',
        'computed as sums of products; others use another algorithm, in which infinity reaches more elements',
    ),
    Kept(
        'wrong', 'QuantizeLinear', 'x with inf | x with largest',
        'QuantizeLinear-28 quantizelinear: x with inf',
        'what is beyond the greatest code saturates to it; others cast it to an integer first, which is undefined in C',
    ),
    Kept(
        'wrong', 'QuantizeLinear', 'T? is float8*',
        'QuantizeLinear-19 quantizelinear: T2 is float8e4m3fn',
        "a float8 zero point is added, as in the standard's formula; both others ignore it, and dequantise with 0 only",
    ),
    Kept(
        'wrong', 'LSTM GRU RNN', 'sequence_lens*',
        'LSTM-1 lstm_with_peepholes: sequence_lens[0]=0',
        'onnxruntime refuses the first opsets, and the reference ignores lengths',
    ),
    Kept(
        'other', 'LRN', 'X with * | alpha=inf',
        'LRN-13 lrn: X with nan',
        'onnxruntime updates one running sum from channel to channel, where NaN stays, and multiplies its padding by alpha',
    ),
    Kept(
        'refused', 'MaxUnpool', 'strides absent',
        'MaxUnpool-11 maxunpool_export_with_output_shape: strides absent',
        'indices out of the output that strides of 1 give; in onnxruntime they are positions in output_shape',
        'out of range',
    ),
    Kept(
        'wrong', 'Trilu', 'T is string',
        'Trilu-14 triu: T is string',
        'an empty string stands for 0; the reference puts the number 0 among the strings',
    ),
    Kept(
        'wrong', 'ai.onnx.ml:LinearClassifier', 'intercepts absent',
        'ai.onnx.ml:LinearClassifier-1 linear_classes: intercepts absent',
        'no intercepts are added; the reference adds NaN, onnxruntime refuses it',
    ),
    Kept(
        'wrong', 'ai.onnx.ml:LinearClassifier', 'X with inf',
        'ai.onnx.ml:LinearClassifier-1 linear_classes_of_words: X with inf',
        'infinity times 0 is NaN, and a NaN score is the largest, as in ArgMax; onnxruntime ignores it',
    ),
    Kept(
        'refused', 'ai.onnx.ml:LinearClassifier', 'classlabels_* absent | classlabels_*=[[]]',
        'ai.onnx.ml:LinearClassifier-1 linear_classes: classlabels_ints absent',
        'ONNX requires labels of the classes; the reference numbers them, as onnxruntime does for one score',
    ),
    Kept(
        'refused', 'ai.onnx.ml:LinearClassifier', 'coefficients=[[]]',
        'ai.onnx.ml:LinearClassifier-1 linear_score: coefficients=[]',
        'the columns of the input have no weights',
        'inner sizes',
    ),
    Kept(
        'refused', 'ai.onnx.ml:LinearRegressor', 'targets absent',
        'ai.onnx.ml:LinearRegressor-1 linear_squashed: targets absent',
        'the weights are for two targets, and there is one; onnxruntime takes the first weights',
        'inner sizes',
    ),
    Kept(
        'refused', 'ai.onnx.ml:SVMClassifier', 'classlabels_ints=[[]]',
        'ai.onnx.ml:SVMClassifier-1 supports_of_classes: classlabels_ints=[]',
        'ONNX requires labels of the classes; the reference numbers them',
        'fewer than two classes',
    ),
    Kept(
        'refused', 'ai.onnx.ml:TreeEnsemble*', 'nodes_treeids=[[]]',
        'ai.onnx.ml:TreeEnsembleRegressor-1 one_tree: nodes_treeids=[]',
        'nodes without trees; the reference then ignores all nodes',
        'are invalid',
    ),
    Kept(
        'refused', 'ai.onnx.ml:TreeEnsemble*', 'base_values_as_tensor=[[]]',
        'ai.onnx.ml:TreeEnsembleRegressor-3 two_trees_of_doubles: base_values_as_tensor=[]',
        'an empty tensor is present, and does not broadcast to the targets; onnxruntime treats it as absent',
        'do not broadcast',
    ),
    Kept(
        'refused', 'ai.onnx.ml:LabelEncoder', 'keys_tensor=[[]] | values_tensor=[[]]',
        'ai.onnx.ml:LabelEncoder-4 labels_by_tensors: keys_tensor=[]',
        'each key must have one value',
        'keys without values, or values without keys',
    ),
    Kept(
        'wrong', 'ai.onnx.ml:TreeEnsemble', 'T is *',
        'ai.onnx.ml:TreeEnsemble-5 ai_onnx_ml_tree_ensemble_single_tree: T is float',
        "splits of another dtype than the input, which ONNX forbids, are cast to the input's; the reference compares across dtypes",
    ),
    Kept(
        'wrong', 'ai.onnx.ml:TreeEnsemble', 'post_transform=1',
        'ai.onnx.ml:TreeEnsemble-5 ai_onnx_ml_tree_ensemble_single_tree: post_transform=1',
        '1 is softmax, as ONNX numbers them; onnxruntime computes logistic, and the reference nothing',
    ),
    Kept(
        'wrong', 'MeanVarianceNormalization', 'axes=[[]]',
        'MeanVarianceNormalization-9 mvn: axes=[]',
        'an empty list counts as absent; onnxruntime refuses it, the reference takes no axes, or all',
    ),
    Kept(
        'wrong', 'GridSample ai.onnx.preview.training:Momentum', "*mode=b''",
        "GridSample-16 gridsample: padding_mode=b''",
        'an empty string counts as absent, and the defaults are zeros and standard; the reference takes another mode',
    ),
    Kept(
        'other', 'ai.onnx.ml:TreeEnsembleRegressor', 'target_nodeids=*',
        'ai.onnx.ml:TreeEnsembleRegressor-1 one_tree: target_nodeids=[2, 2]',
        'weights of one leaf for one target add up; onnxruntime takes the first',
    ),
    Kept(
        'other', 'ai.onnx.ml:TreeEnsembleRegressor', '*',
        'ai.onnx.ml:TreeEnsembleRegressor-1 leaves_of_one_target_each: as it is',
        'a target for which no leaf has a weight gets its base value; onnxruntime omits it',
        case='leaves_of_one_target_each',
    ),
    Kept(
        'other', 'ai.onnx.ml:Normalizer', 'X with largest | X with lowest',
        'ai.onnx.ml:Normalizer-1 normalised: X with largest',
        'the square of the largest float is infinite, and a number divided by infinity is 0; onnxruntime gives NaN',
    ),
    Kept(
        'other', 'TfIdfVectorizer', 'max_skip_count=9223372036854775807',
        'TfIdfVectorizer-9 tfidfvectorizer_tf_only_bigrams_skip0: max_skip_count=9223372036854775807',
        'skips of any length that fits in a row count; in onnxruntime the attribute overflows 64 bits',
    ),
    Kept(
        'wrong', 'ai.onnx.ml:FeatureVectorizer', 'X without elements *',
        'ai.onnx.ml:FeatureVectorizer-1 vectors_of_features: X without elements along 1',
        'the width of an input is its own, whatever the attribute says; others pad with zeros',
    ),
    Kept(
        'other', 'ai.onnx.ml:FeatureVectorizer', 'X without elements *',
        'ai.onnx.ml:FeatureVectorizer-1 features_of_one_row: X without elements along 0',
        'the same, for inputs of one row',
    ),
    Kept(
        'other', 'ai.onnx.ml:CategoryMapper ai.onnx.ml:OneHotEncoder', 'cats_int64s=*',
        'ai.onnx.ml:CategoryMapper-1 codes_by_category: cats_int64s=[2, 2, 3]',
        'a category listed twice has its first position, and in OneHotEncoder both; onnxruntime takes the last',
    ),
)  # fmt: skip


MARK = "and `test_differential.py` checks that each row still does:\n\n"


def table() -> str:
    kinds = {
        "wrong": "both",
        "other": "onnxruntime",
        "other wrong": "onnxruntime or both",
        "refused": "is refused",
        "died": "died",
    }
    lines = ["| operators | what is changed | differs from | |", "|---|---|---|---|"]
    for e in KEPT:
        changes = ", ".join(f"`{c}`" for c in e.change.split(" | "))
        lines.append(f"| {e.operators} | {changes} | {kinds[e.kind]} | {e.reason} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """docs/onnx.md with the table as it is now."""
    before, mark, after = text.partition(MARK)
    behind = after.partition("\n\n")[2]
    return f"{before}{mark}{table()}\n\n{behind}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
