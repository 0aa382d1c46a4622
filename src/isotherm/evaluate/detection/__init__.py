"""`isotherm detect`: encoders inside Faster R-CNN and Mask R-CNN, fine-tuned and judged by COCO's metrics."""
