/* Generated from fanin_wire by `make tables`: do not edit. */
#ifndef FANIN_NCCL_NAMES_H
#define FANIN_NCCL_NAMES_H

static const uint32_t OPS[] = {
    [NCCL_SUM] = FANIN_OP_SUM,
    [NCCL_MIN] = FANIN_OP_MIN,
    [NCCL_MAX] = FANIN_OP_MAX,
    [NCCL_AVG] = FANIN_OP_MEAN,
    [NCCL_PROD] = FANIN_OP_PROD,
};

static const uint32_t DTYPES[] = {
    [NCCL_FLOAT32] = FANIN_DTYPE_F32,
    [NCCL_FLOAT64] = FANIN_DTYPE_F64,
    [NCCL_INT32] = FANIN_DTYPE_I32,
    [NCCL_INT64] = FANIN_DTYPE_I64,
    [NCCL_INT8] = FANIN_DTYPE_I8,
    [NCCL_UINT8] = FANIN_DTYPE_U8,
    [NCCL_UINT32] = FANIN_DTYPE_U32,
    [NCCL_UINT64] = FANIN_DTYPE_U64,
    [NCCL_FLOAT16] = FANIN_DTYPE_F16,
    [NCCL_BFLOAT16] = FANIN_DTYPE_BF16,
};
#endif
