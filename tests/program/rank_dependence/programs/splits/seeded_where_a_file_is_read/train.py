import seeds
import data
