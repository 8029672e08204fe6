ARGS="--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 512 --swiglu --num-experts 8 \
  --moe-layer-freq ([0]*1+[1]*3) --expert-model-parallel-size 2 --bf16 --num-layers-per-virtual-pipeline-stage 1"
N=$((2 * 4)); python pretrain_gpt.py $ARGS --pipeline-model-parallel-size 2 --global-batch-size=$N --micro-batch-size ${MBS:-1}
