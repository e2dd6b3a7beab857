from data import split
import os, missing

split.f(1)
