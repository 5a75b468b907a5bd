"""What every simulation of the engine needs: simulated time, processes, doors that fail, a database without
threads, compute, a follower, and who starts, stops and replaces all of them.
"""
