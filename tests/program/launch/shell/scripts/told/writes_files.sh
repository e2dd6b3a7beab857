N=2
cat > node.sh <<EOF
torchrun --nproc_per_node $N t.py \$1
EOF
cat <<'EOF' > plain.txt
$N
EOF
echo more >> plain.txt
bash node.sh "$(cat plain.txt)"
