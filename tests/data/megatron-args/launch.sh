#!/bin/bash
# Trains a 7B Llama on 4 nodes of 8, in the form of Megatron-LM's examples.

export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NUM_NODES=${SLURM_NNODES:-4}
NODE_RANK=${SLURM_NODEID:-0}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
TP=${TP:-2}
WORLD_SIZE=$((GPUS_PER_NODE * NUM_NODES))

if [ -z "$GBS" ]; then
    GBS=$((WORLD_SIZE * 8))
fi

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --node_rank $NODE_RANK
    --master_addr $MASTER_ADDR
)

GPT_MODEL_ARGS=(
    --num-layers 32           # decoder layers
    --hidden-size 4096
    --ffn-hidden-size 11008
    --num-attention-heads 32
    --seq-length 4096
    --max-position-embeddings 4096
    --position-embedding-type rope
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0 --hidden-dropout 0.0
)

TRAINING_ARGS="
    --micro-batch-size 1 \
    --global-batch-size ${GBS} \
    --train-iters 500000 --lr 3.0e-4 --bf16 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
"

MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size ${TP}
	--pipeline-model-parallel-size "${PP:-1}"
	--sequence-parallel
)

DATA_ARGS=(
    --data-path "$DATA_PATH"
    --tokenizer-type Llama2Tokenizer
    --tokenizer-model $TOKENIZER_MODEL
    --split 949,50,1
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    ${TRAINING_ARGS} \
    "${MODEL_PARALLEL_ARGS[@]}" \
    ${DATA_ARGS[@]} \
    --log-interval 1 2>&1 | tee run.log
