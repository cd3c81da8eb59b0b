"""Small whole models that `hostile_files` makes wrong, as text: each of several ops that lean on each other.

Seeds below `hostile_files.WIDER` choose from `FIRST`, so that they stay what they were; `MORE` has contributed ops, quantised numbers,
scans, lists in loops, strings, windows and boxes.
"""

from __future__ import annotations

FIRST = {
    "images": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, 2, h, w] x) => (float[n, k] y)
        <int64[4] fs = {3, 2, 3, 3}, int64[1] bs = {3}, int64[2] s = {0, -1}> {
            f = ConstantOfShape <value = float[1] {0.5}> (fs) b = ConstantOfShape (bs)
            c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 1]> (x, f, b)
            r = Relu (c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (r)
            q = GlobalAveragePool (p) t = Reshape (q, s) y = Softmax <axis = 1> (t) }""",
    "attention": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[b, s, 8] x) => (float[b, s, 8] y)
        <int64[1] two = {2}, int64[1] minus = {-1}, int64[1] zero = {0}, int64[1] one = {1}, float scale = {0.5}> {
            shape = Shape (x) n = Slice (shape, zero, two) target = Concat <axis = 0> (n, two, minus)
            h = Reshape (x, target) q = Transpose <perm = [0, 2, 1, 3]> (h) k = Transpose <perm = [0, 2, 3, 1]> (h)
            a = MatMul (q, k) m = Mul (a, scale) p = Softmax <axis = -1> (m) v = MatMul (p, q)
            t = Transpose <perm = [0, 2, 1, 3]> (v) y = Reshape (t, shape) }""",
    "tokens": """
        <ir_version: 8, opset_import: ["" : 17]> g (int64[b, s] ids, float[50, 4] table) => (float[b, k, 4] y, int64[b, k] at)
        <int64[1] three = {3}, int64[1] last = {-1}> {
            e = Gather (table, ids) r = ReduceSum <keepdims = 0> (e, last) v, at = TopK <axis = 1> (r, three)
            u = Unsqueeze (at, last) w = Expand (u, shape) shape = Constant <value = int64[3] {1, 1, 4}> ()
            y = GatherElements <axis = 1> (e, w) }""",
    "turns": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64 k, bool go) => (float[n] y, float[m, n] all) {
            y, all = Loop <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] e, float[n] o)
                { d = Identity (c) f = CastLike (i, a) e = Add (a, f) o = Neg (e) }> (k, go, x) }""",
    "choice": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, bool c) => (y)
        { y = If <then_branch = t () => (float[n] p) { p = Exp (x) }, else_branch = e () => (float[n] q) { q = Abs (x) }> (c) }""",
    "cells": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[s, b, 2] x, int32[b] lens) => (y, h)
        <int64[3] wide = {1, 12, 2}, int64[3] deep = {1, 12, 3}> {
            w = ConstantOfShape <value = float[1] {0.1}> (wide) r = ConstantOfShape <value = float[1] {0.2}> (deep)
            y, h = LSTM <hidden_size = 3, direction = "forward"> (x, w, r, , lens) }""",
    "places": """
        <ir_version: 8, opset_import: ["" : 18]> g (float[n, m] x, int64[k] at, float[k, m] add) => (y, z, u) {
            last = Constant <value = int64[1] {-1}> () i = Unsqueeze (at, last) y = ScatterND <reduction = "add"> (x, i, add)
            nz = NonZero (x) z = Transpose <perm = [1, 0]> (nz) u, f, v, c = Unique <axis = 0, sorted = 1> (at) }""",
    "sizes": """
        <ir_version: 8, opset_import: ["" : 18]> g (float[n, 1, h, w] x, int64[2] by, float[4] f) => (y, z)
        { r = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , f)
          p = Pad <mode = "reflect"> (r, pads) pads = Constant <value = int64[8] {0, 0, 0, 1, 0, 0, 1, 0}> ()
          y = DepthToSpace <blocksize = 1, mode = "CRD"> (p) z = Tile (by, one) one = Constant <value = int64[1] {2}> () }""",
    "lists": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x, int64 at) => (y, z)
        { l = SplitToSequence <axis = 0, keepdims = 1> (x) e = SequenceAt (l, at) m = SequenceInsert (l, e)
          z = SequenceLength (m) y = ConcatFromSequence <axis = 0> (m) }""",
    "calls": """
        <ir_version: 8, opset_import: ["" : 17, "acme" : 1]> g (float[n] x) => (y) { a = acme.F <slope = 0.5> (x) y = acme.G (a) }
        <opset_import: ["" : 17, "acme" : 1], domain: "acme"> F <slope> (v) => (w) { w = LeakyRelu <alpha : float = @slope> (v) }
        <opset_import: ["" : 17, "acme" : 1], domain: "acme"> G (v) => (w) { u = acme.F <slope = 2.0> (v) w = Tanh (u) }""",
    "numbers": """
        <ir_version: 8, opset_import: ["" : 17]> g (int64[n] a, int64[n] b, float[n] x) => (q, r, o, c)
        { q = Div (a, b) r = Mod (a, b) k = ConstantOfShape (s) s = Shape (x) o = Add (k, x)
          e = CumSum (x, axis) axis = Constant <value = int64 {0}> () c = Cast <to = 7> (e) }""",
}

MORE = {
    "norms": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[b, s, 8] x, float[b, s, 8] z) => (y, u) {
            w = Constant <value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}> ()
            y, m, v, a = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, z, w, w)
            f = com.microsoft.FastGelu (y, w) u = com.microsoft.QuickGelu <alpha = 1.5> (f) }""",
    "heads": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[b, s, 8] x, float[8, 24] w, float[24] c) => (y, z) {
            y = com.microsoft.Attention <num_heads = 2> (x, w, c)
            z = com.microsoft.MultiHeadAttention <num_heads = 4> (y, x, x) }""",
    "fused": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[n, m] x, float[k, m] w) => (y, z)
        { y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w) z = com.microsoft.BiasGelu (y, c)
          c = Constant <value = float[1] {0.5}> () }""",
    "turned": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[b, s, 8] x, int64[b, s] at, float[m, 2] c, float[m, 2] d) => (y)
        { y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, at, c, d) }""",
    "words": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (int32[b, s] ids, int32[b, s] kind, float[9, 4] e, float[6, 4] p, float[2, 4] t, float[4] w, int32[b, s] mask) => (y, m)
        { y, m = com.microsoft.EmbedLayerNormalization (ids, kind, e, p, t, w, w, mask) }""",
    "bits": """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[n, 32] x, uint8[3, 2, 8] q, float[6] s, uint8[3] z) => (y)
        { y = com.microsoft.MatMulNBits <K = 32, N = 3, bits = 4, block_size = 16> (x, q, s, z) }""",
    "scaled": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, m] x, float s, uint8 z, float[m] r) => (y, w) {
            q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) k = Constant <value = uint8[1] {3}> ()
            a, b, c = DynamicQuantizeLinear (d) t = Transpose (a) p = MatMulInteger (a, t, c, c)
            w = Cast <to = 1> (p) y = DequantizeLinear <axis = 1> (q, r, o) o = Cast <to = 2> (r) }""",
    "sums": """
        <ir_version: 8, opset_import: ["" : 17]> g (uint8[1, 2, h, w] x, float s, uint8 z) => (y) {
            f = Constant <value = uint8[1, 2, 1, 1] {1, 2}> ()
            q = QLinearConv <pads = [1, 1, 1, 1], kernel_shape = [1, 1]> (x, s, z, f, s, z, s, z)
            y = ConvInteger <strides = [2, 1]> (x, f, z) }""",
    "scans": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, m] x, float[m] a) => (y, z) {
            y, z = Scan <num_scan_inputs = 1, scan_input_directions = [1], body = b (float[m] c, float[m] d) => (float[m] e, float[m] f)
                { e = Add (c, d) f = Mul (e, d) }> (a, x) }""",
    "grown": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64 k) => (y, m) {
            e = SequenceEmpty <dtype = 1> () t = Constant <value = bool {1}> ()
            l = Loop <body = b (int64 i, bool c, seq(float[n]) s) => (bool d, seq(float[n]) r)
                { d = Identity (c) v = Cast <to = 1> (i) a = Mul (x, v) r = SequenceInsert (s, a) }> (k, t, e)
            m = SequenceLength (l) y = ConcatFromSequence <axis = 0, new_axis = 1> (l) }""",
    "deep": """
        <ir_version: 8, opset_import: ["" : 17]> g (float[n] x, bool c, bool d) => (y) {
            y = If <then_branch = t () => (p)
                { p = If <then_branch = u () => (q) { q = Exp (x) }, else_branch = v () => (r) { r = Neg (x) }> (d) },
                else_branch = w () => (o) { o = Abs (x) }> (c) }""",
    "texts": """
        <ir_version: 9, opset_import: ["" : 20]> g (string[n] x) => (y, z, w, e) {
            y, z = StringSplit <delimiter = " ", maxsplit = 2> (x)
            w = StringNormalizer <case_change_action = "UPPER", stopwords = ["A"]> (x)
            e = StringConcat (x, x) }""",
    "frames": """
        <ir_version: 9, opset_import: ["" : 19]> g (float[1, 1, h, w] x) => (y, z, u) {
            y, i = MaxPool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1], ceil_mode = 1> (x)
            z = AveragePool <kernel_shape = [2, 2], dilations = [2, 1], auto_pad = "SAME_UPPER", count_include_pad = 1> (x)
            l = LRN <size = 3> (z) u = LpPool <kernel_shape = [2, 2], p = 3> (l) }""",
    "boxes": """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 1, h, w] x, float[r, 4] b, int64[r] i, float[1, k, 4] c, float[1, 1, k] s) => (y, z) {
            y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, b, i)
            m = Constant <value = int64[1] {3}> () t = Constant <value = float[1] {0.5}> () z = NonMaxSuppression (c, s, m, t, t) }""",
    "grams": """
        <ir_version: 8, opset_import: ["" : 17]> g (int64[n, m] x) => (y) {
            y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1,
                ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], pool_int64s = [1, 2, 1, 2]> (x) }""",
}

LATER = {
    "sparse": """
        <ir_version: 9, opset_import: ["" : 26]> g (float[n, 3] x, float[2, 3] v, float[3] u) => (y, z)
        <float[2] v = {1, -2}, int64[2] at = {0, 5}, float[3] u = {1, 2, 3}> {
            a = Gemm <transB = 1> (x, v) b = Add (x, u) c = Constant <value = float[2] {1, 2}> ()
            d = Add (a, c) y = BitCast <to = 6> (d) z = BitCast <to = 12> (b) }""",
    "firsts": """
        <ir_version: 3, opset_import: ["" : 1, "ai.onnx.ml" : 1]> g (float[1, 1, h, w] x, int64[n] k) => (y, z, s)
        <float tiles = {2}, float axis = {3}> {
            u = Upsample <height_scale = 1.5, width_scale = 2.0> (x) y = Tile (u, tiles, axis)
            z = LpPool <kernel_shape = [2, 2], p = 1.5> (x)
            s = ai.onnx.ml.LabelEncoder <classes_strings = ["a", "b"], default_string = "?"> (k) }""",
}
"""Models with defaults of inputs, of which the first becomes sparse, and with operators as they were first declared"""
