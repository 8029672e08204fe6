NPROC_PER_NODE=2 swift sft --model m --train_type lora --dataset "a" 'b' \
 --quant_method bnb --quant_bits 4 --max_length=2048
