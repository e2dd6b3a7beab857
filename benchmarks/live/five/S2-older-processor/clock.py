"""Stands for a core at a lower clock: every layer of the model does its work more than once."""
import torch


def slow_down(module, times):
    """Each leaf layer with weights repeats its own matrix product `times` further times, forward and backward."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(_forward(times))
            layer.register_full_backward_hook(_backward(times))
    return module


def _forward(times):
    def hook(layer, inputs, output):
        with torch.no_grad():
            for _ in range(times):
                torch.nn.functional.linear(inputs[0].detach(), layer.weight.detach(), layer.bias.detach())
    return hook


def _backward(times):
    def hook(layer, grad_in, grad_out):
        with torch.no_grad():
            for _ in range(times):
                flat = grad_out[0].flatten(0, -2)
                flat @ layer.weight.detach()
                flat.t() @ flat
    return hook
