"""The collectives of all ranks side by side: who called what at which position."""
