cd /tmp/w/proto; nice -n -15 /tmp/w/venv/bin/python ab.py 1.5b 1,5,8,16,64,512 4 256 avx512 /tmp/w/wt/base /tmp/w/wt/v_g1 /tmp/w/wt/v_g2
