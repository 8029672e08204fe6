"""`python -m shardscope` is the program."""

from shardscope._launch import main

main()
