"""One small class for each method: counts and a budget in, probabilities of every row out."""
